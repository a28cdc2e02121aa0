import assert from "node:assert/strict";
import test from "node:test";

const { Fences, linesOf } = await import("../../assets/decode/code.js");

const TEXT = "Like this:\n```python\ndef f():\n\n    return '```'\n```\nThat is ``` all.";

test("the lines between two fences are code, and the fences too", () => {
  const code = linesOf(TEXT).filter(({ isCode }) => isCode);
  assert.equal(code.map(({ line }) => line).join(""), "```python\ndef f():\n\n    return '```'\n```\n");
});

test("it does not matter how a text is cut into tokens", () => {
  const flags = linesOf(TEXT).flatMap(({ line, isCode }) => [...line].map((char) => (char === "\n" ? null : isCode)));
  const fences = new Fences();
  const single = [...TEXT].map((char) => fences.next(char));
  flags.forEach((isCode, i) => {
    const isOpening = TEXT.slice(i, i + 3).includes("`"); // the first backticks of an opening fence say nothing yet
    if (isCode !== null && !isOpening) assert.equal(single[i], isCode, `at ${i}: ${TEXT.slice(i, i + 9)}`);
  });
});
