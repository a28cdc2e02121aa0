// The visitor's predictions, { lesson: { question: value } }. The browser stores them if it is allowed to.

import { keep, keptValue } from "../shared/memory.js";
import { observable } from "../shared/observable.js";

const PLACE = "specdec.lessons";
const progress = observable();
const saved = keptValue(PLACE);
let answers = saved && typeof saved === "object" ? saved : {};

function save() {
  keep(PLACE, JSON.stringify(answers));
  progress.notify();
}

export const answerOf = (lesson, question) => answers[lesson]?.[question];

export function answer(lesson, question, value) {
  answers[lesson] = { ...answers[lesson], [question]: value };
  save();
}

// Deletes the answers of one lesson, or of all lessons.
export function forget(lesson) {
  if (lesson) delete answers[lesson];
  else answers = {};
  save();
}

export function onProgress(listener) {
  progress.subscribe(listener);
  listener();
}
