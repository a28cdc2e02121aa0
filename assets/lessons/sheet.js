// A lesson on paper: questions, a figure, and room for answers. The right answers are on a separate page.

import { make } from "../shared/view.js";
import { drawBoard } from "./board.js";
import { textOf } from "./question.js";

const LINES = 2; // lines to write on below each question

const paragraphs = (text) => text.split("\n").map((part) => make("p", "", part));

function field({ choices, percent, range }) {
  if (choices) return make("ul", "choices", ...choices.map((text) => make("li", "", text)));
  const unit = percent ? "%" : `(${range[0]} to ${range[1]})`;
  return make("p", "number", `My prediction: __________ ${unit}`);
}

function section(question, number) {
  const lines = Array.from({ length: LINES }, () => make("hr"));
  const room = make("div", "room", make("p", "note", "Because:"), ...lines);
  const title = make("h2", "", `Question ${number}`);
  return make("section", "asked", title, ...paragraphs(question.ask), field(question), room);
}

function answered(question, number) {
  const title = make("h2", "", `Question ${number}: ${textOf(question, question.answer)}`);
  return make("section", "", title, ...paragraphs(question.why));
}

const address = ({ id }) => {
  const url = new URL("?", location.href);
  url.searchParams.set("lesson", id);
  return url.href;
};

// The sheet of a lesson. number: its number in the list.
function drawSheet(lesson, number) {
  const questions = make(
    "section",
    "page",
    make("p", "name", "Name: ______________________________    Date: ______________"),
    make("h1", "", `Lesson ${number}: ${lesson.title}`),
    ...paragraphs(lesson.read),
    ...(lesson.figure ? [make("div", "figure", drawBoard(lesson.boards[lesson.figure], { open: true }))] : []),
    ...lesson.questions.map((question, i) => section(question, i + 1)),
    make("p", "note", `On a screen: ${address(lesson)}`),
  );
  const answers = make(
    "section",
    "page answers",
    make("h1", "", `Answers to lesson ${number}`),
    ...lesson.questions.map((question, i) => answered(question, i + 1)),
    make("p", "gist", `In short: ${lesson.gist}`),
  );
  return make("article", "lesson-sheet", questions, answers);
}

// Opens the browser's print dialog for the sheet alone.
export function printSheet(lesson, number) {
  document.querySelector(".lesson-sheet")?.remove();
  document.body.append(drawSheet(lesson, number));
  document.body.toggleAttribute("data-sheet", true);
  addEventListener(
    "afterprint",
    () => {
      document.querySelector(".lesson-sheet")?.remove();
      document.body.removeAttribute("data-sheet");
    },
    { once: true },
  );
  print();
}
