// The visitor's predictions, { lesson: { question: value } }. The browser stores them if it is allowed to.

import { observable } from "../shared/observable.js";

const PLACE = "specdec.lessons";
const progress = observable();
let answers = stored();

function stored() {
  try {
    const value = JSON.parse(localStorage.getItem(PLACE));
    return value && typeof value === "object" ? value : {};
  } catch {
    return {}; // the browser stores nothing, or another program wrote the stored value
  }
}

function keep() {
  try {
    localStorage.setItem(PLACE, JSON.stringify(answers));
  } catch {
    // the browser stores nothing: the predictions last as long as the page
  }
  progress.notify();
}

export const answerOf = (lesson, question) => answers[lesson]?.[question];

export function answer(lesson, question, value) {
  answers[lesson] = { ...answers[lesson], [question]: value };
  keep();
}

// Deletes the answers of one lesson, or of all lessons.
export function forget(lesson) {
  if (lesson) delete answers[lesson];
  else answers = {};
  keep();
}

export function onProgress(listener) {
  progress.subscribe(listener);
  listener();
}
