import assert from "node:assert/strict";
import test from "node:test";
import { figuresOf, payoffLink, reasonWords } from "../../assets/decode/aside.js";
import { account, ticksOf } from "../../assets/decode/lanes.js";
import { captions, guessesOf, ownStory, story } from "../../assets/decode/opening.js";
import { setPace } from "../../assets/decode/player.js";
import { leading } from "../../assets/decode/race.js";
import { layout, thinned } from "../../assets/decode/tree.js";
import { decisions } from "../../assets/shared/decisions.js";
import { durations, speed, speedWords } from "../../assets/shared/speed.js";
import { show, state } from "../../assets/shared/store.js";
import { runs } from "./recorded.js";

test("the winner of a race runs on top, both winners run, and the others are counted", () => {
  const all = Object.values(runs).flatMap(({ rounds }) => rounds.flatMap((round) => round.steps));
  for (const step of all) {
    const { rows, left } = leading(step, true);
    assert.equal(rows[0].token_id, step.winner_p);
    assert.ok(rows.length <= 4 && rows.length + left <= step.leading.length);
    const ids = rows.map(({ token_id }) => token_id);
    if (step.winner_q !== null) assert.ok(ids.includes(step.winner_q));
    assert.ok(ids.includes(step.token_id));
  }
});

test("the opening tells the most instructive round step by step and the next one, then plays both bars", () => {
  show(runs["story.json"], { name: "story", round: 1, step: 3 });
  const acts = story();
  assert.equal(acts.length, 8);
  assert.deepEqual([acts[7].seconds, acts[7].again], [6, true]);
  const seconds = acts.slice(0, 7).reduce((sum, act) => sum + act.seconds, 0);
  assert.ok(seconds > 10 && seconds < 16, `${seconds} s`);
});

test("the sentences of a round say what was guessed, checked, kept and replaced, without holes", () => {
  show(runs["story.json"], { name: "story", round: 1, step: 3 });
  const round = state.rounds[1];
  const words = captions(round);
  const guesses = guessesOf(round);
  const right = round.tokens.filter(({ kind }) => kind === "accepted").length;
  const guessed = guesses.slice(0, right).map(({ token_id }) => token_id);
  const accepted = round.tokens.slice(0, right).map(({ id }) => id);
  assert.deepEqual(guessed, accepted);
  assert.match(words.guessed, /^The small model guesses ahead: six tokens, as a tree/);
  assert.match(words.checked, /^The large model checks .*in one slow call\.$/);
  assert.match(words.written, /large model (writes|adds) “.*read.*”.*: four tokens for one slow call\.$/);
  assert.doesNotMatch(Object.values(words).join(" "), /undefined|NaN|null|␣/);
});

test("only what made a run's gain differ from the recording's is named: the tokens or the time of a call", () => {
  const other = { times: 2.5, tokens: 5 };
  const wordsOf = (times, tokens) => reasonWords({ times, tokens }, other);
  const fewer = "yields 3.00 tokens (recording: 5.00)";
  const [less, more] = ["below", "above"].map(
    (side) => `The gain is ${side} the recording's 2.5 times, because a call with guesses`,
  );
  assert.equal(wordsOf(2, 3), `${less} ${fewer}.`);
  assert.equal(wordsOf(1.2, 3), `${less} ${fewer} and takes 2.50 times as long as a plain one (recording: 2.00).`);
  assert.equal(wordsOf(3, 3), `${more} takes 1.00 times as long as a plain one (recording: 2.00).`);
  assert.equal(wordsOf(2.55, 3), "The gain is about the recording's 2.5 times.");
  assert.equal(wordsOf(null, 3), "");
});

test("a link to “Will it pay?” has the acceptance of the first guess and a draft step in plain calls, if measured", () => {
  const { rounds, baseline } = runs["code.json"];
  const link = (run) => new URLSearchParams(payoffLink(figuresOf({ ...runs["code.json"], ...run })));
  const seconds = (list, part) => list.reduce((total, round) => total + round.seconds[part], 0);
  const levels = rounds.reduce((total, { nodes }) => total + nodes.at(-1).path.length, 0);
  const step = seconds(rounds, "draft") / levels / (seconds(baseline, "evaluate") / baseline.length);
  assert.equal(link({ rounds, baseline }).get("payoff.draft_step"), step.toFixed(3));
  const untimed = link({ rounds, baseline: [] });
  assert.equal(untimed.get("payoff.draft_step"), null);
  assert.ok(Number(untimed.get("payoff.acceptance")) > 0.8);
  const withCopies = (round) => ({ ...round, nodes: round.nodes.map((node) => ({ ...node, copied: true })) });
  // the small model guessed nothing
  assert.equal(String(link({ rounds: rounds.map(withCopies), baseline })), "tab=payoff&payoff.preset=here");
});

// A run of two rounds with two tokens each, beside four tokens of plain decoding.
const timedRun = (...pairs) => {
  const seconds = { draft: 1, evaluate: 1, verify: 0, rest: 5 };
  const round = (tokens) => ({ tokens: Array(tokens).fill({}), seconds });
  const timings = pairs.map(([run, plain]) => ({ run: [run, run], plain: Array(4).fill(plain) }));
  return { rounds: [round(2), round(2)], baseline: Array.from({ length: 4 }, () => round(1)), timings };
};

test("a speed is told with its interval, after three repeats, and not where they are far apart", () => {
  assert.equal(speed(timedRun([2, 1], [2, 1])), null);
  const words = (...pairs) => speedWords(speed(timedRun(...pairs)));
  assert.equal(words([2, 1.2], [2, 1.3], [2, 1.4]), "1.3 times as fast (1.2 to 1.4)");
  assert.equal(words([2, 1.3], [2, 1.3], [2, 1.3]), "1.3 times as fast");
  assert.equal(words([2, 0.8], [2, 0.7], [2, 0.8]), "slower here: 0.8 times as fast (0.7 to 0.8)");
  assert.equal(words([2, 0.999], [2, 1.0], [2, 1.1]), "about as fast as plain decoding here (1.0 to 1.1)");
  const short = (...pairs) => speedWords(speed(timedRun(...pairs)), false);
  assert.equal(short([2, 1.2], [2, 1.3], [2, 1.4]), "1.3 times as fast");
  assert.equal(short([2, 1.0], [2, 1.1], [2, 1.2]), "about as fast as plain decoding here");
  assert.equal(speed(timedRun([2, 1], [2, 3], [2, 1.2])).isBusy, true);
  const outliers = [1.2, 1.3, 1.4, 9, 0.1].map((plain) => [2, plain]);
  assert.equal(words(...outliers), "1.3 times as fast (1.2 to 1.4)");
});

test("the lanes have the very ratio that is told, also where only the beginning was repeated", () => {
  const run = timedRun([2, 1.2], [2, 1.3], [2, 1.4]);
  run.timings[1].run.pop();
  run.timings[1].plain.length = 2;
  const total = (list) => list.reduce((sum, seconds) => sum + seconds, 0);
  const times = durations(run);
  assert.equal(times.run.length, 2);
  assert.equal(times.plain.length, 4);
  const ratio = speed(run).times;
  assert.ok(Math.abs(ratio - total(times.plain) / total(times.run)) < 1e-12);
});

test("a call has a tick for each token, inside its block and apart from the others, however narrow it is", () => {
  for (const width of [1, 3, 9, 40]) {
    for (const tokens of [1, 2, 7, 12]) {
      const ticks = ticksOf(tokens, width);
      assert.equal(ticks.length, tokens);
      for (const [i, { x, y, height }] of ticks.entries()) {
        assert.ok(x > 0 && x < width && y >= 0 && y + height <= 20);
        for (const other of ticks.slice(i + 1))
          assert.ok(Math.abs(other.x - x) >= 4.5 || Math.abs(other.y - y) >= 1.5 * height);
      }
    }
  }
});

test("a speed is that of whole repeats, and the account's figures agree with it", () => {
  const run = timedRun([2, 1], [2, 1], [2, 1]);
  run.timings.forEach(({ plain }, i) => void (plain[i] = 4)); // each repeat is slow at another token
  const { times, low, high } = speed(run);
  assert.deepEqual([times, low, high], [7 / 4, 7 / 4, 7 / 4]);
  run.baseline.at(-1).finish = "length";
  const rounds = run.rounds.map((round) => ({ ...runs["story.json"].rounds[0], ...round }));
  show({ ...runs["story.json"], ...run, rounds }, {});
  assert.match(account(), /: a call with guesses yields 2\.00 tokens and takes 1\.1 times as long\.$/);
});

test("whoever stops plain decoding reads so while the run plays", () => {
  const { setup, rounds, baseline } = runs["story.json"];
  show({ setup: { ...setup, baseline: true }, rounds, baseline: baseline.slice(0, 24) }, {});
  const words = ownStory().at(-1).words;
  assert.equal(words(), "Plain decoding was stopped after 24 tokens, so there is no comparison.");
  show({ setup, rounds, baseline }, {});
  assert.match(words(), /for one token or several\.$/);
  setPace("real");
  assert.match(ownStory().at(-1).words(), /^Played again: the run beside plain decoding/);
});

test("labels of a deep tree fall below their marks, and stay within the drawing", () => {
  const { setup, rounds } = runs["code.json"];
  const zoom = { apply: (x, y) => ({ x, y }), scale: 1 };
  const layoutOf = (width, height) =>
    layout(rounds[0], decisions(rounds[0], setup.method).at(-1), { width, height, zoom });
  assert.equal(layoutOf(1200, 250).isFalling, false);
  for (const [width, height] of [
    [490, 250],
    [340, 110],
  ]) {
    const { isFalling, nodes, room } = layoutOf(width, height);
    assert.equal(isFalling, true);
    const lowest = Math.max(...nodes.map(({ y }) => y));
    assert.ok(room >= 4 && lowest + (8 * room) / Math.SQRT2 < height, `${room} characters below ${lowest}`);
  }
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
