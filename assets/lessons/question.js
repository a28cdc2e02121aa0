// A question of a lesson: its inputs, and the feedback on a prediction.

import { make, makeOutput } from "../shared/view.js";

const decimals = ({ range, percent }) => (percent ? 1 : range[2] < 1 ? 2 : 0);
const unit = ({ percent }) => (percent ? "%" : "");

export const isChoice = (question) => Boolean(question.choices);

// A value in words. Predictions are rounded to whole steps of the slider.
export function textOf(question, value) {
  if (isChoice(question)) return `“${question.choices[value]}”`;
  const rounded = Number(value.toFixed(decimals(question)));
  return `${rounded}${unit(question)}`;
}

export const isRight = (question, value) =>
  isChoice(question) ? value === question.answer : Math.abs(value - question.answer) <= question.close + 1e-9;

// The feedback in one friendly sentence: the prediction is right, or how far it is from the answer.
export function feedback(question, value) {
  const answer = textOf(question, question.answer);
  if (isRight(question, value)) {
    const exactly = isChoice(question) || textOf(question, value) === answer;
    return exactly ? `✓ Right: ${answer}.` : `✓ Right: you said ${textOf(question, value)}, the answer is ${answer}.`;
  }
  if (isChoice(question)) return `○ You predicted ${textOf(question, value)}; the answer is ${answer}.`;
  const off = Math.abs(value - question.answer);
  const [least, most] = question.range;
  const near = off <= (most - least) / 8 ? "Close" : "Not quite";
  return `○ ${near}: you said ${textOf(question, value)}, the answer is ${answer}: ${Number(off.toFixed(decimals(question)))}${question.percent ? " points" : ""} off.`;
}

// The sentence for a visitor who made no prediction.
export const answerWords = (answer) => `The answer is ${answer}.`;

// Adds the inputs and calls `ready()` after a choice. Returns a function that reads the prediction.
export function ask(host, question, value, ready) {
  host.replaceChildren();
  return isChoice(question) ? askChoice(host, question, value, ready) : askNumber(host, question, value, ready);
}

function askChoice(host, { choices }, value, ready) {
  const inputs = choices.map((text, i) => {
    const radio = { type: "radio", name: "lesson-choice", value: i, checked: i === value };
    const input = Object.assign(make("input"), radio);
    input.addEventListener("change", ready);
    host.append(make("label", "option", input, make("span", "", text)));
    return input;
  });
  return () => inputs.findIndex(({ checked }) => checked);
}

function askNumber(host, question, answer, ready) {
  const [min, max, step] = question.range;
  const slider = Object.assign(make("input"), { type: "range", min, max, step, value: answer ?? (min + max) / 2 });
  const output = makeOutput();
  const draw = () => {
    const text = answer === undefined && !touched ? "?" : `${Number(slider.value)}${unit(question)}`;
    output.textContent = text;
    slider.setAttribute("aria-valuetext", text === "?" ? "no prediction yet" : text);
  };
  let touched = false;
  for (const name of ["input", "pointerup"]) {
    slider.addEventListener(name, () => {
      if (slider.disabled) return;
      touched = true;
      draw();
      ready();
    });
  }
  slider.setAttribute("aria-label", "Your prediction");
  host.append(make("label", "number", slider, output));
  draw();
  return () => Number(slider.value);
}
