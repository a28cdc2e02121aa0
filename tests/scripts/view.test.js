import assert from "node:assert/strict";
import test from "node:test";
import { settle, run as startRace, timely } from "../../assets/decode/motion.js";
import { state } from "../../assets/shared/store.js";
import { onceDrawn, onFrame } from "../../assets/shared/view.js";

// Frames that the test lets pass.
const frames = [];
globalThis.requestAnimationFrame = (work) => frames.push(work);
const passFrame = () => frames.splice(0).map((work) => work());

test("a frame draws each view once with the newest state, and measures when all are written", () => {
  const times = [];
  const first = onFrame(() => {
    times.push("first");
    onceDrawn(() => times.push("measured"));
  });
  const second = onFrame(() => times.push("second"));
  for (let i = 0; i < 3; i++) [first, second].map((draw) => draw());
  assert.equal(frames.length, 1);
  passFrame();
  assert.deepEqual(times, ["first", "second", "measured"]);
  second();
  passFrame();
  assert.deepEqual(times.slice(3), ["second"]);
});

test("a view that fails is reported and leaves the others alone", () => {
  const reported = [];
  globalThis.reportError = (error) => reported.push(error.message);
  let isDrawn = false;
  const broken = onFrame(() => {
    throw new Error("broken");
  });
  const whole = onFrame(() => {
    isDrawn = true;
  });
  broken();
  whole();
  passFrame();
  assert.deepEqual([isDrawn, reported], [true, ["broken"]]);
});

test("there is motion for the next round, not for one of several that come with one update", () => {
  globalThis.matchMedia = () => ({ matches: false });
  let now = 1000;
  performance.now = () => now;
  const shown = (round) => {
    now += 1000;
    return timely({ round, step: 0 });
  };
  state.follow = true;
  assert.deepEqual([0, 1, 6, 7, 3].map(shown), [true, true, false, true, true]);
  state.follow = false; // a visitor who goes there wants to see it
  assert.equal(shown(9), true);
});

test("a race that still runs is stilled before the next one", () => {
  const [cancelled, durations] = [[], []];
  const bar = (name, width) => ({
    getAttribute: () => String(width),
    animate: (_, { duration }) => {
      durations.push(duration);
      return { cancel: () => cancelled.push(name) };
    },
  });
  startRace([bar("draft", 100), bar("target", 50)]);
  settle();
  settle();
  assert.equal(durations[0], 2 * durations[1], "all run equally fast");
  assert.deepEqual(cancelled, ["draft", "target"]);
});
