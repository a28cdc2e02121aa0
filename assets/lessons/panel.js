// The list of all lessons, and the functions by which other scripts open a lesson.

import { project } from "../page/projector.js";
import { offer, tell } from "../page/setup.js";
import { misfit } from "../page/setup_fields.js";
import { explained } from "../shared/glossary.js";
import { observable } from "../shared/observable.js";
import { make, makeButton, onFrame, setText } from "../shared/view.js";
import { Bar } from "./bar.js";
import { drawBoard } from "./board.js";
import { openNotes } from "./notes.js";
import { answerOf, forget, onProgress } from "./progress.js";
import { printSheet } from "./sheet.js";
import { lastStep } from "./steps.js";

let bar = null;
const steps = observable(); // the event that announces each opened step, and the end
let arrive;
export const arrived = new Promise((resolve) => (arrive = resolve)); // resolves when the lesson of the address is open

// The visitor's place: a lesson, its step, and whether the step asks a question; null outside of lessons.
export const place = () => bar?.lesson && { lesson: bar.lesson.id, step: bar.step, asks: Boolean(bar.question) };
export const onStep = steps.subscribe;

// Lets a class predict instead of the visitor. The lecturer then shows the answers. hall: { isShown(lesson,
// step), show() }, or null if the visitor predicts alone again.
export function teach(hall) {
  if (!bar) return void arrived.then(() => teach(hall));
  bar.hall = hall;
  if (bar.lesson) refresh();
}

// Scrolls the bar to the part that it shows.
export const bring = (element) => bar.bring(element);

export function refresh() {
  bar.draw();
  bar.setUp();
}

// Opens a lesson at a step, counted from 0.
export async function goTo(lesson, step = 0) {
  await arrived;
  bar.open(lesson, step);
}

// Begins the short lecture (0) or the whole one (1), on the projector.
export async function beginLecture(which) {
  project();
  await arrived;
  bar.begin(bar.lectures[which]);
}

// lessons: the address of the file with all lessons.
export async function mountLesson(element, { lessons: address }) {
  const lessons = await fetchJson(address).catch(() => null);
  if (!lessons) return tell(["The lessons could not be loaded. Load the page again."]);
  bar = new Bar(element, lessons, steps.notify);
  const notes = element.querySelector(".notes");
  notes.addEventListener("click", () => openNotes(bar) || setText(notes, "Allow pop-ups first"));
  openAsked(lessons, new URLSearchParams(location.search));
  arrive();
}

async function fetchJson(address) {
  const answer = await fetch(new URL(address, document.baseURI).href);
  return answer.ok ? answer.json() : null;
}

// Opens the lesson and the step that the address names. The address counts steps from 1.
function openAsked(lessons, query) {
  bar.lecture = bar.lectures.find(({ minutes }) => String(minutes) === query.get("lecture")) ?? null;
  if (query.has("lecture") && !bar.lecture) {
    const minutes = bar.lectures.map((each) => each.minutes).join(" or ");
    tell([misfit("lecture", query.get("lecture"), `${minutes}, the minutes of a lecture`)]);
  }
  const name = query.get("lesson") ?? bar.lecture?.stops[0].lesson.id ?? null;
  if (name === null) return;
  const lesson = lessons.find(({ id }) => id === name);
  if (!lesson) return tell([misfit("lesson", name, `one of ${lessons.map(({ id }) => id).join(", ")}`)]);
  const [step, last] = [query.get("step") ?? "1", lastStep(lesson) + 1];
  const fits = /^\d+$/.test(step) && Number(step) >= 1 && Number(step) <= last;
  if (!fits) tell([misfit("step", step, `a whole number from 1 to ${last}`)]);
  bar.open(name, fits ? Number(step) - 1 : 0);
}

function card(lesson, number) {
  const start = Object.assign(
    makeButton("start", [], () => bar.open(lesson.id)),
    { id: `start-${lesson.id}` },
  );
  const paper = makeButton("paper", "Print a sheet", () => printSheet(lesson, number));
  paper.setAttribute("aria-label", `Print a sheet: ${lesson.title}`);
  const title = make("h3", "", `${number}. ${lesson.title}`);
  const goal = make("p", "", ...explained(lesson.goal));
  return make("li", "card", title, goal, make("p", "note progress"), make("p", "buttons", start, paper));
}

// The card of the lectures: the lessons of the short one, with the minute at which each begins.
function drawLectures(card) {
  const [short, full] = bar.lectures;
  setText(card.querySelector("h3"), `A lecture of ${short.minutes} minutes`);
  const route = short.stops.map(({ lesson, from }) => make("li", "", make("b", "", `${from} min`), lesson.title));
  card.querySelector(".route").append(...route);
  const buttons = card.querySelectorAll("button");
  setText(buttons[1], `All lessons: ${full.minutes} minutes`);
  for (const i of [0, 1]) buttons[i].addEventListener("click", () => beginLecture(i));
  card.hidden = false;
}

// The list of lessons, the visitor's progress, and the board of the open step.
export async function mount(element) {
  await arrived;
  const { lessons } = bar;
  const items = lessons.map(card);
  element.querySelector(".lessons").append(...items);
  drawLectures(element.querySelector(".lecture"));
  const button = element.querySelector(".forget");
  button.addEventListener("click", () => forget());
  const draw = onFrame(() => {
    const counts = lessons.map(({ id, questions }) => questions.filter((_, i) => answerOf(id, i) !== undefined).length);
    lessons.forEach((lesson, i) => {
      const [note, start] = items[i].querySelectorAll(".progress, .start");
      setText(note, `${counts[i]} of ${lesson.questions.length} questions answered`);
      setText(start, counts[i] === 0 ? "Start" : counts[i] < lesson.questions.length ? "Continue" : "Read again");
      start.setAttribute("aria-label", `${start.textContent}: ${lesson.title}`);
    });
    button.hidden = counts.every((count) => count === 0);
  });
  onProgress(draw);
  mountBoard(element.querySelector(".board"));
}

// The part “board” of a set-up, { name }: the name of a board of the open lesson, or none.
function mountBoard(element) {
  offer("board", {
    get: () => ({}), // a step of the lesson opens the board, so the address needs no entry for it
    set: ({ name }) => {
      const board = bar.lesson?.boards?.[name];
      element.hidden = !board;
      document.body.toggleAttribute("data-board", Boolean(board));
      if (!board) return;
      element.querySelector(".drawn").replaceChildren(drawBoard(board));
      element.querySelector(".measure").hidden = !board.measure;
    },
  });
}
