// A lesson's steps: 0 reads, 1 ... ask, the last one sums up. What each shows, and what was predicted. Without a page.

import { isRight, said } from "./question.js";

export const lastStep = (lesson) => lesson.questions.length + 1;

export const questionAt = (lesson, step) => lesson.questions[step - 1];

// The set-up of the page at a step; null at the end. The set-up of an open question does not give its answer away.
export function setupAt(lesson, step, revealed) {
  if (step >= lastStep(lesson)) return null;
  const question = questionAt(lesson, step);
  if (!question) return lesson.open;
  return revealed ? question.after : question.before;
}

// Each question's outcome: { question, step, given, right }; given is undefined where nothing was predicted.
export const outcomes = (lesson, answerOf) =>
  lesson.questions.map((question, i) => {
    const given = answerOf(lesson.id, i);
    return { question, step: i + 1, given, right: given !== undefined && isRight(question, given) };
  });

// The lesson in two sentences.
export function summary(lesson, found) {
  const answered = found.filter(({ given }) => given !== undefined);
  const right = answered.filter((outcome) => outcome.right).length;
  const skipped = found.length - answered.length;
  return [
    `That was it: ${lesson.gist}`,
    `You predicted ${right} of ${answered.length} right${skipped > 0 ? `; ${skipped} of ${found.length} were skipped` : ""}.`,
  ];
}

// The outcome of a question, for the list at the end.
export function result({ question, step, given, right }) {
  const answer = said(question, question.answer);
  if (given === undefined) return `– Question ${step}: skipped; it is ${answer}.`;
  if (right) return `✓ Question ${step}: ${answer}.`;
  return `○ Question ${step}: you said ${said(question, given)}, it is ${answer}.`;
}
