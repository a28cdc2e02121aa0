// The histogram of a class's answers, a bar per choice or columns over numbers, and the right answer.

import { isRight, textOf } from "../lessons/question.js";
import { count as counted } from "../shared/labels.js";
import { make } from "../shared/view.js";

const MOST_COLUMNS = 20;

// The columns, each with the values that it covers and its number of answers: [{ from, to, count }].
export function columns([least, most, step], counts) {
  const steps = Math.round((most - least) / step);
  const wide = Math.ceil((steps + 1) / MOST_COLUMNS);
  const number = Math.ceil((steps + 1) / wide);
  const bins = Array.from({ length: number }, (_, i) => ({
    from: least + i * wide * step,
    to: Math.min(most, least + ((i + 1) * wide - 1) * step),
    count: 0,
  }));
  for (const [value, count] of counts) {
    const bin = Math.floor(Math.round((value - least) / step) / wide);
    bins[Math.min(number - 1, Math.max(0, bin))].count += count;
  }
  return bins;
}

// The place of a value, in the middle of its slider step, as a fraction of the width of all columns.
export function placeOf([least, most, step], value) {
  const steps = Math.round((most - least) / step) + 1;
  const wide = Math.ceil(steps / MOST_COLUMNS);
  const width = Math.ceil(steps / wide) * wide;
  return Math.min(1, Math.max(0, ((value - least) / step + 0.5) / width));
}

export const total = (counts) => counts.reduce((sum, [, count]) => sum + count, 0);

// The number of right answers.
export const right = (question, counts) => total(counts.filter(([value]) => isRight(question, value)));

// A list with a bar for each answer. rows: { text, count, mark, isRight, isMine, meaning }, where `meaning`
// describes the mark for screen readers. most: the count at which a bar has its full length.
export function answerBars(rows, most, className = "class-answers") {
  const row = ({ text, count, mark, isRight, isMine, meaning }) => {
    const note = meaning && make("span", "visually-hidden", meaning);
    const words = [make("span", "mark", mark), make("span", "what", text), note];
    words.push(isMine && make("span", "yours", "yours"), make("span", "count", count));
    const bar = make("div", "bar", make("span"));
    bar.style.setProperty("--share", String(count / Math.max(1, most)));
    return make("li", `choice${isRight ? " right" : ""}`, make("p", "said", ...words), bar);
  };
  return make("ul", className, ...rows.map(row));
}

function drawChoices(question, counts, mine) {
  const rows = question.choices.map((text, i) => {
    const [isRight, count] = [i === question.answer, total(counts.filter(([value]) => value === i))];
    const words = isRight ? { mark: "✓", meaning: "(the right answer)" } : { mark: "" };
    return { text, count, isRight, isMine: i === mine, ...words };
  });
  return answerBars(rows, total(counts));
}

function drawNumbers(question, counts, mine) {
  const bins = columns(question.range, counts);
  const highest = Math.max(1, ...bins.map(({ count }) => count));
  const figure = make("figure", "numbers");
  const plot = make("div", "plot");
  for (const { from, to, count } of bins) {
    const column = make("span", "column", count > 0 ? String(count) : "");
    column.style.setProperty("--share", String(count / highest));
    column.title = `${textOf(question, from)}${to > from ? ` to ${textOf(question, to)}` : ""}: ${counted(count, "answer")}`;
    plot.append(column);
  }
  const place = placeOf(question.range, question.answer);
  const mark = make("span", `answer ${place > 0.6 ? "before" : ""}`, `✓ ${textOf(question, question.answer)}`);
  mark.style.setProperty("--at", String(place));
  plot.append(mark);
  if (mine !== null && mine !== undefined) {
    const own = make("span", "own", "▲");
    own.style.setProperty("--at", String(placeOf(question.range, mine)));
    own.title = `yours: ${textOf(question, mine)}`;
    plot.append(own);
  }
  const ends = question.range.slice(0, 2).map((value) => make("span", "", textOf(question, value)));
  figure.append(plot, make("p", "ends", ...ends));
  figure.setAttribute("role", "img");
  figure.setAttribute("aria-label", inWords(question, counts));
  return figure;
}

// The histogram in words, for screen readers.
export function inWords(question, counts) {
  const bins = columns(question.range, counts).filter(({ count }) => count > 0);
  const words = bins.map(({ from, to, count }) => `${textOf(question, from)} to ${textOf(question, to)}: ${count}`);
  return `The class's answers: ${words.join("; ") || "none"}. Right: ${textOf(question, question.answer)}.`;
}

// Draws the histogram into `host`. mine: this student's own answer, if there is one.
export function drawHistogram(host, question, counts, mine = null) {
  const all = total(counts);
  const near = question.close > 0 ? `, at most ${question.close}${question.percent ? " points" : ""} off` : "";
  const verdict =
    all > 0 ? `${right(question, counts)} of ${counted(all, "answer")} right${near}` : "Nobody has answered";
  const figure = question.choices ? drawChoices(question, counts, mine) : drawNumbers(question, counts, mine);
  host.replaceChildren(figure, make("p", "sum", verdict));
}
