// A lesson on paper: questions, a figure, and room for answers. The right answers are on a separate page.

import { make } from "../shared/view.js";
import { drawBoard } from "./board.js";
import { isChoice, said } from "./question.js";

const LINES = 2; // lines to write on below each question

const paragraphs = (text) => text.split("\n").map((part) => make("p", "", part));

function asked(question, number) {
  const item = make("section", "asked");
  item.append(make("h2", "", `Question ${number}`), ...paragraphs(question.ask));
  if (isChoice(question)) {
    const choices = make("ul", "choices");
    choices.append(...question.choices.map((text) => make("li", "", text)));
    item.append(choices);
  } else {
    const { percent, points, range } = question;
    const unit = points ? "percentage points" : percent ? "%" : `(${range[0]} to ${range[1]})`;
    item.append(make("p", "number", `My prediction: __________ ${unit}`));
  }
  const room = make("div", "room");
  room.append(make("p", "note", "Because:"), ...Array.from({ length: LINES }, () => make("hr")));
  item.append(room);
  return item;
}

function answered(question, number) {
  const item = make("section");
  item.append(make("h2", "", `Question ${number}: ${said(question, question.answer)}`), ...paragraphs(question.why));
  return item;
}

const address = ({ id }) => {
  const url = new URL("?", location.href);
  url.searchParams.set("lesson", id);
  return url.href;
};

// The sheet of a lesson. number: its number in the list.
function drawSheet(lesson, number) {
  const sheet = make("article", "lesson-sheet");
  const title = `Lesson ${number}: ${lesson.title}`;
  const questions = make("section", "page");
  const figure = make("div", "figure");
  figure.append(drawBoard(lesson.boards[lesson.figure], { open: true }));
  questions.append(
    make("p", "name", "Name: ______________________________    Date: ______________"),
    make("h1", "", title),
    ...paragraphs(lesson.read.replace(/\n(Here|Beside) .*$/s, "")),
    figure,
    ...lesson.questions.map((question, i) => asked(question, i + 1)),
    make("p", "note", `On a screen: ${address(lesson)}`),
  );
  const answers = make("section", "page answers");
  answers.append(make("h1", "", `Answers to lesson ${number}`), ...lesson.questions.map((q, i) => answered(q, i + 1)));
  answers.append(make("p", "gist", `In short: ${lesson.gist}`));
  sheet.append(questions, answers);
  return sheet;
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
