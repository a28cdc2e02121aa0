import assert from "node:assert/strict";
import test from "node:test";
import { excess, exponentials, first, fromStep, residual, START_SEED, withEntry } from "../../assets/race_lab/model.js";
import { draftsSentence, fillDrafts } from "../../assets/race_lab/several.js";
import { resolved } from "../../assets/shared/colours.js";
import { ticks } from "../../assets/shared/drawing.js";
import { Asker } from "../../assets/shared/lab_view.js";
import { gained, layout, nodesOf, thinned } from "../../assets/tree_lab/growth.js";
import { runs } from "./recorded.js";

const sum = (values) => values.reduce((total, value) => total + value, 0);
const near = (value, target, off = 1e-12) => assert.ok(Math.abs(value - target) <= off, `${value} is not ${target}`);
const tokensOf = (p, q) => p.map((entry, i) => ({ p: entry, q: q[i] }));
const DISTRIBUTIONS = [[1], [0.5, 0.5], [0.7, 0.2, 0.1], [0, 0.25, 0.75]];

test("a race is won by each token with its own probability", () => {
  const [p, races] = [[0.5, 0.3, 0.2], 20_000];
  const wins = [0, 0, 0];
  const times = exponentials(START_SEED, p.length * races);
  for (let i = 0; i < races; i++) {
    const tokens = p.map((entry, j) => ({ p: entry, e: times[3 * i + j] }));
    wins[first(tokens, "p")] += 1;
  }
  wins.forEach((count, i) => near(count / races, p[i], 0.015)); // four standard errors
});

test("a token without probability never arrives first, and one seed gives one race", () => {
  for (let seed = 0; seed < 100; seed++) {
    const times = exponentials(seed, 2);
    const tokens = times.map((e, q) => ({ q, e }));
    assert.equal(first(tokens, "q"), 1);
    assert.deepEqual(exponentials(seed, 2), times);
    assert.ok(times.every((e) => e > 0));
  }
});

test("an entry that is set leaves the others their proportions, and all add up to 1", () => {
  for (const distribution of DISTRIBUTIONS.slice(1)) {
    for (const value of [-1, 0, 0.3, 1, 2]) {
      const changed = withEntry(distribution, 0, value);
      near(sum(changed), 1);
      near(changed[0], Math.min(Math.max(value, 0), 1));
      for (let i = 2; i < distribution.length; i++)
        near(changed[i] * distribution[i - 1], changed[i - 1] * distribution[i]);
    }
  }
  near(sum(withEntry([1, 0, 0], 0, 0.4)), 1);
});

test("the residual is what P has more than Q, normalised; where they are one, nothing is left", () => {
  for (const p of DISTRIBUTIONS) {
    for (const q of DISTRIBUTIONS.filter(({ length }) => length === p.length)) {
      const law = residual(tokensOf(p, q));
      if (p === q) assert.equal(law, null);
      else {
        near(sum(law), 1);
        law.forEach((entry, i) => assert.equal(entry > 0, p[i] > q[i]));
      }
    }
  }
});

test("a position of a run becomes a race with the same winners", () => {
  let raced = 0;
  for (const step of Object.values(runs).flatMap(({ rounds }) => rounds.flatMap(({ steps }) => steps))) {
    if (step.winner_q === null || step.leading.length === 0) continue;
    const ids = new Map(step.leading.map(({ token_id, exponential }) => [exponential, token_id]));
    const tokens = fromStep(structuredClone(step), (text) => text);
    near(sum(tokens.map(({ p }) => p)), 1, 1e-6);
    assert.equal(ids.get(tokens[first(tokens, "p")].e), step.winner_p);
    assert.equal(ids.get(tokens[first(tokens, "q")].e), step.winner_q);
    raced += 1;
  }
  assert.ok(raced > 20);
});

// Trees as the server sends them: [parent, child index] of each node, parents first; here "11" is [1, 1].
const rowsOf = (text) => text.split(" ").map((row) => [...row].map(Number));
const ROWS = {
  root: rowsOf("00"),
  chain: rowsOf("00 00 10 20"),
  batch: rowsOf("00 00 01 02"),
  mixed: rowsOf("00 00 10 01 20 11 30 02 40 50 31"),
};
const RATES = [0.6, 0.2, 0.1];
const tree = (rows) => nodesOf([[undefined, null], ...rows.slice(1)], RATES);

test("a node's acceptance is the product of the rates on its path", () => {
  for (const rows of Object.values(ROWS)) {
    for (const node of tree(rows)) {
      const product = node.path.reduce((rates, index) => rates * RATES[index], 1);
      near(node.acceptance, product);
      assert.equal(node.depth, node.path.length);
      for (const child of node.children) assert.equal(child.parent, node);
    }
  }
});

test("no two places of a drawn tree coincide, a first child goes straight on, siblings go down", () => {
  for (const rows of Object.values(ROWS)) {
    for (const decisions of [false, true]) {
      const nodes = tree(rows);
      const { terminals, rows: height, depth } = layout(nodes, decisions);
      const all = [...nodes, ...terminals];
      assert.equal(new Set(all.map((item) => `${item.depth}/${item.row}`)).size, all.length);
      assert.ok(all.every((item) => item.row <= height && item.depth <= depth));
      for (const { children, row } of nodes) {
        if (children.length > 0) assert.equal(children[0].row, row);
        children.slice(1).forEach((child, i) => assert.ok(child.row > children[i].row));
      }
    }
  }
});

test("labels touch no other label, and the newest node has one where nothing is above it", () => {
  const nodes = Array.from({ length: 60 }, (_, i) => ({ x: 23 * (i % 8), y: 9 * Math.floor(i / 8) }));
  const items = [...thinned(nodes)];
  for (const [i, a] of items.entries()) {
    for (const b of items.slice(i + 1)) assert.ok(Math.abs(a.x - b.x) >= 40 || Math.abs(a.y - b.y) >= 14);
  }
  assert.equal(thinned([0, 1].map((x) => ({ x, y: 0 }))).size, 1);
});

test("ticks are round, begin at 0 and stay within", () => {
  for (const end of [0.003, 0.7, 1, 7, 12, 99, 12345]) {
    const all = ticks(end, 5);
    assert.equal(all[0], 0);
    assert.ok(all.at(-1) <= end * (1 + 1e-9) && all.length >= 3 && all.length <= 6, `${end}: ${all}`);
  }
});

test("a figure's colours are resolved by name, wherever they stand, and its data are left alone", () => {
  const x = [1, 2];
  const trace = { x, hovertext: ["var(--draft)"], line: { color: "var(--draft)" }, name: "var(--draft) or so" };
  const layout = { shapes: [{ line: { color: "var(--ink)" } }], xaxis: { range: [0, 1] }, title: null };
  const colourOf = (name) => ({ "--draft": "#123456", "--ink": "#000000" })[name];
  assert.deepEqual(resolved(trace, colourOf), { ...trace, line: { color: "#123456" } });
  assert.equal(resolved(trace, colourOf).x, x);
  assert.deepEqual(resolved(layout, colourOf), { ...layout, shapes: [{ line: { color: "#000000" } }] });
});

test("what rounding leaves of p - q is nothing", () => {
  const p = [0.1 + 0.2, 0.5, 0.2];
  const q = [0.3, 0.25, 0.45];
  assert.ok(p[0] > q[0]);
  assert.equal(excess({ p: p[0], q: q[0] }), 0);
  assert.deepEqual(residual(tokensOf(p, q)), [0, 1, 0]);
});

test("rules with several drafts are drawn and told beside the optimum of their kind", () => {
  const curve = (value) => Array.from({ length: 8 }, (_, i) => value + i / 100);
  const names = ["optimum", "drawn", "gsd", "ersd", "specinfer", "spectr"];
  const drafts = Object.fromEntries(names.map((name, i) => [name, curve(0.8 - i / 10)]));
  const figure = { data: names.map((name) => ({ name })), layout: { xaxis: {}, yaxis: {} } };
  fillDrafts(figure, drafts);
  assert.deepEqual(figure.data[3].x, [1, 2, 3, 4, 5, 6, 7, 8]);
  assert.deepEqual(figure.data[3].y, drafts.ersd);
  assert.equal(figure.data[2].text[1], "gsd, 2 drafts: 61.0%");
  assert.ok(figure.layout.yaxis.range[0] < drafts.spectr[0] && figure.layout.yaxis.range[1] > drafts.optimum[7]);
  assert.equal(
    draftsSentence(drafts),
    "Acceptance with 3 drafts: GSD 62.0% and ERSD 52.0%, where at most 82.0% is possible without replacement; SpecInfer 42.0% and SpecTr 32.0%, where at most 72.0% is possible with independent draws.",
  );
});

// An asker with a box for its errors and one element of results, whose attributes are recorded.
function asking() {
  globalThis.Text ??= class {};
  const box = { hidden: true, textContent: "", childNodes: [] };
  const marks = {};
  const note = (name, value) => (marks[name] = value);
  return { box, marks, asker: new Asker(box, [{ setAttribute: note, toggleAttribute: note }]) };
}

test("a question to which Gradio gives no answer, because the server is gone, is told", async () => {
  const { box, asker } = asking();
  const noAnswer = async () => undefined;
  await asker.ask(noAnswer, () => assert.fail("used"));
  assert.match(box.textContent, /did not answer/);
  assert.equal(box.hidden, false);
});

test("results of an earlier question are marked until a question is answered, and each asker clears its own error", async () => {
  const { box, asker, marks } = asking();
  const ignored = () => {};
  const answers = (asker, answer) => asker.ask(async () => answer, ignored);
  await answers(asker, { error: "too large" });
  assert.equal(marks["data-outdated"], true);
  await answers(new Asker(box), {});
  assert.deepEqual([box.hidden, marks["data-outdated"]], [false, true]);
  await answers(asker, {});
  assert.deepEqual([box.hidden, marks["data-outdated"], marks["aria-busy"]], [true, false, "false"]);
});

test("the caption of the curves is true of every R", () => {
  const k = Array.from({ length: 385 }, (_, i) => i);
  const curve = k.map((i) => 1 + i);
  const words = gained({ optimal: curve, sequence: curve, batch: k.map((i) => Math.min(2, 1 + i)) });
  assert.match(words, /From k = 48 to 384, the optimal tree gains 336\.00 .* a sequence 336\.00 and a batch 0\.00/);
});
