// The steps of a lesson as plain data: what each step shows, and what the visitor predicted. Step 0 has a
// text to read, the next steps ask questions, and the last step is a summary.

import { isRight, textOf } from "./question.js";

export const lastStep = (lesson) => lesson.questions.length + 1;

export const questionAt = (lesson, step) => lesson.questions[step - 1];

// The text of a lesson's first step in paragraphs. `here` is about what the page shows beside it, so it stands neither
// on paper nor on the students' pages.
export const opening = ({ read, here }) => [...read.split("\n"), ...(here ? [here] : [])];

// The page's setup at a step, or null after the last one. It does not reveal the answer to an open question.
export function setupAt(lesson, step, revealed) {
  if (step >= lastStep(lesson)) return null;
  const question = questionAt(lesson, step);
  if (!question) return lesson.open;
  return revealed ? question.after : question.before;
}

// The outcome of each question: { question, step, given, right }. given is undefined without a prediction.
export const outcomes = (lesson, answerOf) =>
  lesson.questions.map((question, i) => {
    const given = answerOf(lesson.id, i);
    return { question, step: i + 1, given, right: given !== undefined && isRight(question, given) };
  });

// The result of the lesson in two sentences.
export function summary(lesson, outcomes) {
  const answered = outcomes.filter(({ given }) => given !== undefined);
  const right = answered.filter((outcome) => outcome.right).length;
  const skipped = outcomes.length - answered.length;
  const score = `You predicted ${right} of ${answered.length} right${skipped > 0 ? `; you skipped ${skipped} of ${outcomes.length}` : ""}.`;
  return [`In short: ${lesson.gist}`, answered.length > 0 ? score : "You predicted no answer. These are the answers:"];
}

// The outcome of a question in words, for the list at the end.
export function result({ question, step, given, right }) {
  const answer = textOf(question, question.answer);
  if (given === undefined) return `– Question ${step}: the answer is ${answer}.`;
  if (right) return `✓ Question ${step}: ${answer}.`;
  return `○ Question ${step}: you said ${textOf(question, given)}, the answer is ${answer}.`;
}
