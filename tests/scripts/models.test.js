import assert from "node:assert/strict";
import test from "node:test";

globalThis.location = { search: "" };
globalThis.document = { addEventListener: () => {} };
globalThis.window = { specdec: {} };
const { mountComparison, show } = await import("../../assets/page/models.js");
const { state, stop } = await import("../../assets/shared/store.js");

const models = (name) => [{ name, role: "target" }];
const seek = stop; // calls the listeners, as each step through a run does

test("a run with other models than the server's asks the server once", () => {
  let asked = 0;
  const answer = { status: "rest", models: models("of the server") };
  show(answer);
  mountComparison(() => (asked += 1));
  for (const run of ["run 1", "run 2"]) {
    Object.assign(state, { run, setup: { models: models(`of ${run}`) } });
    for (let i = 0; i < 3; i++) {
      seek();
      show(answer); // the server's answer
    }
  }
  assert.equal(asked, 2);
});
