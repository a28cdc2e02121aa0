import assert from "node:assert/strict";
import test from "node:test";
import { pValue } from "../../assets/shared/labels.js";
import { decades } from "../../assets/shared/p_values.js";
import { about, inWords, level, pValueOf, rows } from "../../assets/watermark/words.js";

test("p-values and their inverses are read as people say them", () => {
  assert.deepEqual([1, 0.39, 0.0025, 2.24e-11, 1e-40].map(pValue), ["1", "0.39", "0.0025", "2.2e−11", "1e−40"]);
  assert.deepEqual([1, 2.6, 400, 46e9, 1e22].map(inWords), ["1", "2.6", "400", "46 billion", "10²²"]);
  assert.deepEqual([pValueOf([0.5, 0.39]), pValueOf([0.5, 0])], ["p = 0.39", "p < 1e−300"]);
});

test("a score is as dark as it is high, up to a bound", () => {
  assert.deepEqual([0, 3, 6, 60].map(level), [0, 0.5, 1, 1]);
});

test("what is scored is named, and why a text may have less of a mark", () => {
  const setup = (method, temperature = 1) => ({ method, temperature, seed: 6 });
  assert.equal(
    about(setup("ersd"), 64, 2e-11, 1e-6),
    "The run in Watch: ERSD, seed 6, 64 tokens. One in 50 billion texts that were written without the seed scores at least as high.",
  );
  assert.match(
    about(setup("ar"), 5, 0.02, 1e-6),
    /One in 50 texts that were written without the seed scores at least as high, so this is no proof\.$/,
  );
  assert.match(about(setup("ersd"), 400, 0, 1e-6), / Fewer than one in 10³⁰⁰ texts that .* scores at least as high\.$/);
  assert.match(about(setup("ersd"), 5, 0.1, 1e-6), / One in 10 texts that .* scores at least as high, so/);
  assert.match(about(setup("ersd"), 5, 0.89, 1e-6), / 89% of the texts that .* score at least as high, so/);
  assert.match(
    about(setup("gsd"), 64, 1e-9, 1e-6),
    /Under GSD the target's race does not decide, so the watermark is weaker or missing\.$/,
  );
  assert.match(about(setup("ersd", 0), 64, 0.5, 1e-6), /nothing is random, so there is no watermark to find\.$/);
});

test("the axis holds the smallest p-value, and never fewer than eight decades", () => {
  assert.equal(decades([1, 0.1]), 8);
  assert.equal(decades([1, 3e-13]), 13);
  assert.ok(Number.isFinite(decades([0])));
});

test("the table follows the version's own tokens", () => {
  const version = { places: [0, 0, 2], scores: [1, 0.5, 3], p_values: [0.4, 0.2, 1e-5] };
  assert.deepEqual(rows(["a", "b", "c"], version), [
    ["1", "a", "1.00", "0.4"],
    ["2", "a", "0.50", "0.2"],
    ["3", "c", "3.00", "1e−5"],
  ]);
});
