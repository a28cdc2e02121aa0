import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { lastStep, outcomes, questionAt, result, setupAt, summary } from "../../assets/lessons/steps.js";
import { lecturesOf, minutesOf, minutesUntil, noteAt, spoken } from "../../assets/lessons/times.js";

const lessons = JSON.parse(readFileSync(new URL("../../assets/lessons.json", import.meta.url), "utf8"));
const setups = { before: { tab: "race" }, after: { tab: "trees" } };
const choice = { ask: "?", choices: ["a", "b"], answer: 1, why: "So.", ...setups };
const number = { ...choice, choices: undefined, range: [0, 100, 1], percent: true, answer: 30, close: 2 };
const lesson = {
  id: "it",
  goal: "A goal.",
  gist: "the gist.",
  read: "Read.",
  open: { tab: "live" },
  minutes: 2,
  say: "Say.",
  questions: [
    { ...choice, minutes: 1, say: "One." },
    { ...number, minutes: 3, say: "Two." },
  ],
};

test("a step shows what comes before its question until the answer is there", () => {
  assert.equal(lastStep(lesson), 3);
  assert.deepEqual(setupAt(lesson, 0, false), lesson.open);
  assert.deepEqual(setupAt(lesson, 1, false), choice.before);
  assert.deepEqual(setupAt(lesson, 1, true), choice.after);
  assert.equal(setupAt(lesson, 3, true), null);
  assert.equal(questionAt(lesson, 3), undefined);
});

test("the summary says which question went wrong, which was skipped, and what was right", () => {
  const results = outcomes(lesson, (_, i) => [0, 31][i]);
  const words = results.map(({ step, right }) => `${step}: ${right}`);
  assert.deepEqual(words, ["1: false", "2: true"]);
  assert.deepEqual(results.map(result), ["○ Question 1: you said “a”, the answer is “b”.", "✓ Question 2: 30%."]);
  assert.deepEqual(summary(lesson, results), ["In short: the gist.", "You predicted 1 of 2 right."]);
  const skipped = outcomes(lesson, (_, i) => [1][i]);
  assert.equal(result(skipped[1]), "– Question 2: the answer is 30%.");
  assert.match(summary(lesson, skipped)[1], /1 of 1 right; you skipped 1 of 2/);
  const none = outcomes(lesson, () => undefined);
  assert.equal(summary(lesson, none)[1], "You predicted no answer. These are the answers:");
});

test("notes tell what to say, the answer, what comes next, and the minutes until there", () => {
  const steps = [0, 1, 2, 3];
  const [own, sums] = [minutesOf, minutesUntil].map((minutes) => steps.map((step) => minutes(lesson, step)));
  assert.deepEqual(own, [2, 1, 3, 0]);
  assert.deepEqual(sums, [2, 3, 6, 6]);
  assert.equal(noteAt(lesson, 0).say, "Say.");
  assert.equal(noteAt(lesson, 1).answer, "Answer: “b”. So.");
  assert.equal(noteAt(lesson, 2).coming, "Next: the summary.");
  assert.equal(noteAt(lesson, 3).ask, "the gist.");
  assert.deepEqual([0, 59_999, 61_000, 3_600_000].map(spoken), ["0:00", "0:59", "1:01", "60:00"]);
});

test("the lectures take 45 and 90 minutes, and each lesson begins when the one before it ends", () => {
  const [short, full] = lecturesOf(lessons);
  assert.deepEqual([short.minutes, full.minutes], [45, 90]);
  const all = full.stops.map((stop) => stop.lesson);
  assert.deepEqual(all, lessons);
  for (const { stops, minutes } of [short, full]) {
    const ends = [...stops.slice(1).map(({ from }) => from), minutes];
    const last = ({ lesson, from }) => from + minutesUntil(lesson, lastStep(lesson));
    assert.deepEqual(stops.map(last), ends);
    assert.equal(stops[0].from, 0);
  }
});

test("every lesson's texts are whole sentences, and no goal or title gives an answer away", () => {
  for (const { title, goal, read, questions } of lessons) {
    assert.match(goal, /[.?]$/);
    for (const { why, ask } of questions) {
      assert.match(why, /\.$/);
      assert.match(ask, /\?$/);
      assert.notEqual(`${title} ${goal} ${read}`.includes(why.split(/[:.]/)[0]), true, why);
    }
  }
});
