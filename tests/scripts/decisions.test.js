import assert from "node:assert/strict";
import test from "node:test";
import { nameOf, numbers, roundSentence, sentence } from "../../assets/decode/sentences.js";
import { decisions, emission, isEmitted, isOut, rejection, statusAt } from "../../assets/shared/decisions.js";
import { runs } from "./recorded.js";

function* rounds() {
  for (const [name, { setup, rounds }] of Object.entries(runs)) {
    for (const round of rounds) yield { name, round, method: setup.method, all: decisions(round, setup.method) };
  }
}

test("every token of a round is emitted by exactly one decision, in order", () => {
  for (const { round, all } of rounds()) {
    const emitted = all.filter(isEmitted);
    const expected = round.tokens.map(({ kind }, step) => ({ kind, step }));
    const steps = emitted.map(({ kind, step }) => ({ kind, step }));
    assert.deepEqual(steps, expected);
    round.tokens.forEach((_, step) => assert.equal(all[emission(all, step)].step, step));
  }
});

test("after its last decision a round knows of each node what was recorded, and before its first nothing", () => {
  for (const { round, all } of rounds()) {
    for (const node of round.nodes) {
      const status = node.status === "rejected" && !isOut(node, round) ? "unvisited" : node.status;
      assert.equal(statusAt(node, all.at(-1), round), status);
      assert.equal(statusAt(node, all[0], round), "unvisited");
    }
  }
});

test("what is known of a node never changes once it is known", () => {
  for (const { round, all } of rounds()) {
    for (const node of round.nodes) {
      const states = all.map((decision) => statusAt(node, decision, round)).filter((status) => status !== "unvisited");
      assert.ok(states.every((status) => status === node.status));
    }
  }
});

test("who was never tested is not used: siblings of an accepted token, but for those that failed a test", () => {
  let spared = 0;
  for (const { round, method } of rounds()) {
    for (const node of round.nodes.filter(({ status }) => status === "rejected")) {
      const step = round.steps[node.path.length - 1];
      const failed = step.trials.some(({ path, accepted }) => !accepted && path.join() === node.path.join());
      const beside = step.kind === "accepted";
      assert.equal(isOut(node, round), method === "gsd" ? failed || !beside : !beside);
      spared += Number(!isOut(node, round));
    }
  }
  assert.ok(spared > 10);
});

test("a rejected node is out with a decision of its own position", () => {
  for (const { round, all } of rounds()) {
    for (const node of round.nodes.filter((node) => isOut(node, round))) {
      const decision = all[rejection(all, node)];
      assert.equal(decision.step, node.path.length - 1);
      assert.equal(statusAt(node, decision, round), "rejected");
    }
  }
});

test("a part of a character has one name in the race's bars, steps and sentence", () => {
  for (const { round, method, all } of rounds()) {
    const text = "<AE>";
    const steps = round.steps.map((step) => ({ ...step, leading: step.leading.map((row) => ({ ...row, text })) }));
    const tokens = round.tokens.map((token) => ({ ...token, text: "" }));
    const bytes = { ...round, steps, tokens };
    for (const decision of all.filter(isEmitted)) {
      assert.equal(nameOf(bytes, decision.step), text);
      if (decision.trial === null) assert.ok(sentence(bytes, decision, method).includes(text));
    }
  }
});

test("every decision has a sentence without holes", () => {
  for (const { name, round, method, all } of rounds()) {
    all.forEach((decision, i) => {
      const own = sentence(round, decision, method);
      const ofRound = roundSentence(round, decision, i === all.length - 1);
      assert.ok(own.length > 10 && ofRound.endsWith("."), name);
      for (const text of [own, numbers(round, decision), ofRound])
        assert.doesNotMatch(text, /undefined|NaN|null|\[object/, `${name}, round ${round.number}`);
    });
  }
});
