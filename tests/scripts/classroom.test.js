import assert from "node:assert/strict";
import test from "node:test";
import { forget, recall, remember, spelled } from "../../assets/classroom/connection.js";
import { rate } from "../../assets/classroom/draft.js";
import { columns, inWords, placeOf, right, total } from "../../assets/classroom/histogram.js";

const RANGES = [
  [0, 100, 1],
  [0, 50, 0.5],
  [1, 9, 0.1],
  [1, 20, 0.1],
  [0, 3, 1],
];

for (const range of RANGES) {
  const [least, most, step] = range;
  const values = Array.from({ length: Math.round((most - least) / step) + 1 }, (_, i) => least + i * step);

  test(`every answer from ${least} to ${most} is in one column, below its place on the axis`, () => {
    for (const value of values) {
      const bins = columns(range, [[value, 3]]);
      const indices = bins.flatMap(({ count }, i) => (count ? [i] : []));
      assert.equal(indices.length, 1, `${value}`);
      assert.equal(Math.floor(placeOf(range, value) * bins.length), indices[0], `${value}`);
      assert.ok(bins[indices[0]].from <= value + 1e-9 && value <= bins[indices[0]].to + 1e-9);
    }
  });

  test(`the columns from ${least} to ${most} are few, and keep all answers`, () => {
    const counts = values.map((value, i) => [value, i % 4]);
    const bins = columns(range, counts);
    assert.ok(bins.length <= 20);
    const inBins = bins.reduce((sum, { count }) => sum + count, 0);
    assert.equal(inBins, total(counts));
    assert.equal(bins[0].from, least);
  });
}

test("right is the choice that is, and a number that is close enough", () => {
  const choices = [4, 3].map((count, choice) => [choice, count]);
  assert.equal(right({ choices: ["a", "b"], answer: 1 }, choices), 3);
  const numbers = [2, 2.1, 2.9, 3].map((value, i) => [value, 2 ** i]);
  assert.equal(right({ range: [0, 9, 0.1], answer: 2.5, close: 0.4 }, numbers), 2 + 4);
});

test("who does not see the columns hears them", () => {
  const counts = [50, 51, 90].map((value) => [value, 2]);
  const words = inWords({ range: [0, 100, 1], percent: true, answer: 50 }, counts);
  assert.match(words, /48% to 53%: 4; 90% to 95%: 2\. Right: 50%\.$/);
});

test("a code is read in two groups, a rate per call", () => {
  assert.equal(spelled("ABCDEFGH"), "ABCD EFGH");
  assert.deepEqual([rate(3, 4), rate(0, 0)], ["0.75", "0.00"]);
});

test("a room that ended is forgotten, but not a newer one that another window opened", () => {
  const [old, newer] = ["old", "newer"].map((token) => ({ room: "ACDEFGHJ", token }));
  remember("room", newer);
  forget("room", old);
  assert.deepEqual(recall("room"), newer);
  forget("room", null); // a wrong code, in no room
  assert.deepEqual(recall("room"), newer);
  forget("room", newer);
  assert.equal(recall("room"), null);
});
