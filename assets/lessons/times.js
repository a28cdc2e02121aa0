// The presenter's notes for the steps of a lesson, and the planned times of the steps, as plain data.

import { sum } from "../shared/totals.js";
import { textOf } from "./question.js";
import { lastStep, questionAt } from "./steps.js";

// The minutes planned for a step. The summary is one sentence, for which no time is planned.
export const minutesOf = (lesson, step) =>
  step === 0 ? lesson.minutes : step === lastStep(lesson) ? 0 : questionAt(lesson, step).minutes;

// The minutes planned from the lesson's start to the end of a step.
export const minutesUntil = (lesson, step) => sum(Array.from({ length: step + 1 }, (_, i) => minutesOf(lesson, i)));

const lengthOf = (lesson) => minutesUntil(lesson, lastStep(lesson));

// The two lectures, the short one first: { minutes, stops }. A stop is a lesson and the minute at which it begins.
export const lecturesOf = (lessons) =>
  [lessons.filter(({ short }) => short), lessons].map((route) => ({
    minutes: sum(route.map(lengthOf)),
    stops: route.map((lesson, i) => ({ lesson, from: sum(route.slice(0, i).map(lengthOf)) })),
  }));

// The lecturer's notes at a step: { place, say, ask, answer, coming }.
export function noteAt(lesson, step) {
  const [question, last] = [questionAt(lesson, step), lastStep(lesson)];
  const coming = questionAt(lesson, step + 1);
  return {
    place: `step ${step + 1} of ${last + 1}`,
    say:
      step === last ? "Which answer surprised you? Open that step again with “Look again”." : (question ?? lesson).say,
    ask: question ? question.ask : step === last ? lesson.gist : lesson.read,
    answer: question ? `Answer: ${textOf(question, question.answer)}. ${question.why}` : "",
    coming: coming ? `Next: ${coming.ask}` : step === last ? "" : "Next: the summary.",
  };
}

// Milliseconds in the form minutes:seconds.
export function spoken(milliseconds) {
  const seconds = Math.floor(milliseconds / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}
