import assert from "node:assert/strict";
import test from "node:test";
import * as store from "../../assets/shared/store.js";
import { runs } from "./recorded.js";
import { serve } from "./server.js";

const { state } = store;
serve();
const open = (run) => store.show(run, { name: "a", title: "", look: "", twin: null });
const position = () => `${state.selected.round}.${state.decision}`;

test("step by step forwards visits every decision once, and backwards the same ones", () => {
  for (const run of Object.values(runs)) {
    open(run);
    const total = run.rounds.reduce((sum, _, round) => sum + store.decisionsOf(round).length, 0);
    const way = [position()];
    while (!store.atEnd()) {
      store.moveDecision(1);
      way.push(position());
    }
    assert.equal(way.length, total);
    assert.equal(new Set(way).size, total);
    assert.equal(state.veiled, false);
    for (const place of way.toReversed()) {
      assert.equal(position(), place);
      store.moveDecision(-1);
    }
    assert.equal(position(), "0.0");
  }
});

test("round by round forwards stands at the end of each, and no step leaves the run", () => {
  const run = runs["wide-tree.json"];
  open(run);
  for (let round = 0; round < run.rounds.length; round++) {
    store.moveRound(1);
    assert.equal(position(), `${round}.${store.decisionsOf(round).length - 1}`);
  }
  for (const move of [() => store.moveRound(1), () => store.moveDecision(1), () => store.seek(Infinity)]) {
    move();
    assert.ok(store.atEnd());
  }
  store.seek(-5, -5);
  assert.equal(position(), "0.0");
});

test("a token that is looked at hides nothing, a place in time hides what comes after", () => {
  open(runs["wide-tree.json"]);
  store.select(0, 0);
  assert.equal(state.veiled, false);
  assert.deepEqual(state.selected, { round: 0, step: 0 });
  store.seek(0, 0);
  assert.equal(state.veiled, true);
});

const update = (phase, more = {}) => JSON.stringify({ phase, rounds: [], ...more });

test("a live run grows by its updates around the selected place, and waits behind a recorded one", () => {
  const { setup, rounds } = runs["story.json"];
  store.begin();
  assert.ok(store.isExpecting());
  store.receive(update("waiting", { waits: true, place: { number: 2, of: 3, seconds: null } }));
  assert.equal(state.place.number, 2);
  store.receive(update("running", { setup, rounds: rounds.slice(0, 1) }));
  store.receive(update("running", { rounds: rounds.slice(1, 2) }));
  assert.equal(state.rounds.length, 2);
  assert.equal(state.selected.round, 1);
  store.seek(0, 1); // a visitor who walks through time stays there while further rounds come
  store.receive(update("running", { rounds: rounds.slice(2, 4) }));
  store.receive(update("done", { rounds: rounds.slice(4) }));
  assert.equal(position(), "0.1");
  assert.deepEqual(state.rounds, rounds);
  assert.equal(state.phase, "done");
  open(runs["wide-tree.json"]);
  assert.ok(store.hasParked());
  store.unpark();
  assert.deepEqual(state.rounds, rounds);
});

test("a run that is refused leaves what is shown, and late updates of a stopped run do not bring it back", () => {
  const { rounds } = state;
  store.begin();
  store.receive(update("choosing", { waits: true }));
  assert.deepEqual([state.phase, state.place, state.rounds], ["choosing", null, rounds]);
  store.receive(update("error", { message: "k = 0: give at least 1" }));
  assert.equal(state.message, "k = 0: give at least 1");
  assert.equal(state.rounds, rounds);
  store.begin();
  store.stop();
  store.receive(update("running"));
  assert.equal(state.rounds, rounds);
  assert.equal(state.phase, "stopped");
});

test("a run that is stopped while its times are measured is complete", () => {
  const { setup, rounds } = runs["story.json"];
  store.begin();
  store.receive(update("running", { setup, rounds }));
  store.receive(update("baseline"));
  store.stop();
  assert.equal(state.phase, "done");
  assert.deepEqual(state.rounds, rounds);
});
