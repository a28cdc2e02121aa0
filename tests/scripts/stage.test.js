import assert from "node:assert/strict";
import test from "node:test";
import { story } from "../../assets/decode/opening.js";
import { axisEnd } from "../../assets/decode/race.js";
import { thinned } from "../../assets/decode/tree.js";
import { show, state } from "../../assets/shared/store.js";
import { runs } from "./recorded.js";

const steps = () => Object.values(runs).flatMap(({ rounds }) => rounds.flatMap((round) => round.steps));

test("a race's axis shows its winners and ends soon after the first arrivals, however late the others are", () => {
  for (const { leading } of steps()) {
    const winners = ["arrival_q", "arrival_p"].map((name) => Math.min(...leading.map((row) => row[name] ?? Infinity)));
    const won = Math.max(...winners.filter(Number.isFinite));
    const end = axisEnd(leading);
    assert.ok(end >= 1.2 * won && end <= 8 * won, `${end} for winners at ${winners}`);
  }
});

test("the opening's story is told of its first two rounds, in order, without holes", () => {
  const opening = runs["opening.json"];
  show(opening, { name: "opening" });
  const moments = story();
  const told = moments.map(({ words }) => words).join(" ");
  assert.match(
    told,
    /^Guessed: .* six tokens.*Checked: .*“.*She had a.*”.*target writes its own “.*toy.*”: four tokens/s,
  );
  assert.doesNotMatch(told, /undefined|NaN|null|␣/);
  const places = moments.map(({ move }) => {
    move();
    return [state.selected.round, state.decision];
  });
  assert.deepEqual(
    places,
    places.toSorted(([a, b], [c, d]) => a - c || b - d),
  );
  assert.deepEqual([places[0], places.at(-1)[0]], [[0, 0], 1]);
});

test("labels of a tree keep off each other by their own widths, and what decides the round has its label", () => {
  const node = (x, y, status, wide) => ({ x, y, status, wide });
  const long = node(0, 0, "unvisited", 60);
  const near = node(40, 5, "unvisited", 30);
  const decided = node(90, 0, "last", 30);
  const below = node(40, 40, "unvisited", 60);
  const reach = ({ wide }) => wide;
  assert.deepEqual([...thinned([long, near, decided, below], reach)], [decided, long, below]);
  assert.deepEqual([...thinned([near, decided], reach)], [decided, near]);
});
