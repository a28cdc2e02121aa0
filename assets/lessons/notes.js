// The presenter's notes: a window for the lecturer's own screen, which follows the lesson and can move it.

import { make, makeButton, setText } from "../shared/view.js";
import { minutesOf, minutesUntil, noteAt, spoken } from "./times.js";

const NAME = "specdec-notes"; // the window's name, by which a reloaded page finds it
const EVERY = 1000; // milliseconds between two updates of the clock
const COLOURS = ["--paper", "--ink", "--muted", "--line"];
const STYLE = `
  body { margin: 0; padding: 20px 24px; font: 20px/1.45 system-ui, sans-serif; background: var(--paper); color: var(--ink); }
  h1 { font-size: 20px; margin: 0 0 4px; }
  p { margin: 0 0 14px; }
  .clock, .coming { color: var(--muted); font-size: 16px; font-variant-numeric: tabular-nums; }
  .say { font-size: 26px; font-weight: 600; }
  .answer:not(:empty) { border-left: 4px solid var(--line); padding-left: 12px; }
  button { font: inherit; padding: 6px 20px; margin-right: 8px; color: inherit; background: var(--paper); border: 1px solid var(--muted); border-radius: 6px; }
`;

let view = null; // the parts of the open window, by name, and the window itself
let began = null; // { name, at }: the current lecture or lesson, and when it was opened
let entered = 0; // when the current step was opened

// Opens the window or brings it to the front. Returns false if the browser opens none.
export function openNotes(bar) {
  const popup = window.open("", NAME, "popup,width=640,height=680");
  if (!popup) return false;
  view = build(popup, bar);
  draw(bar);
  popup.focus();
  return true;
}

function build(popup, bar) {
  const { document } = popup;
  const style = make("style", "", STYLE);
  document.title = "Presenter's notes";
  document.documentElement.lang = "en";
  document.head.replaceChildren(make("title", "", document.title), style);
  const colours = getComputedStyle(window.document.body);
  document.documentElement.style.colorScheme = colours.colorScheme;
  for (const name of COLOURS) document.documentElement.style.setProperty(name, colours.getPropertyValue(name));
  const lines = ["clock", "say", "ask", "answer", "coming"].map((name) => [name, make("p", name)]);
  const parts = { title: make("h1"), ...Object.fromEntries(lines) };
  const back = makeButton("", "Back", () => bar.lesson && bar.back());
  const next = makeButton("", "Next", () => bar.lesson && bar.advance());
  document.body.replaceChildren(make("main", "", ...Object.values(parts), back, next));
  document.addEventListener("keydown", (event) => bar.key(event));
  const timer = setInterval(() => (popup.closed ? clearInterval(timer) : tick(bar)), EVERY);
  return { ...parts, window: popup };
}

// Updates the notes. The bar calls this function at each step.
export function follow(bar) {
  const name = bar.lecture ? `lecture ${bar.lecture.minutes}` : (bar.lesson?.id ?? null);
  if (name !== (began?.name ?? null)) began = name && { name, at: Date.now() };
  entered = Date.now();
  if (view && !view.window.closed) draw(bar);
}

function draw(bar) {
  const { lesson, step } = bar;
  const note = lesson ? noteAt(lesson, step) : { say: "The notes appear here when a lesson is open on the page." };
  setText(view.title, lesson ? `${bar.numberOf(lesson.id)}. ${lesson.title} · ${note.place}` : "No lesson is open");
  for (const name of ["say", "ask", "answer", "coming"]) setText(view[name], note[name] ?? "");
  tick(bar);
}

function tick({ lesson, step, lecture, stop }) {
  if (!lesson) return setText(view.clock, "");
  const [ofStep, all] = [entered, began.at].map((time) => spoken(Date.now() - time));
  const own = minutesOf(lesson, step);
  const minutes = (stop?.from ?? 0) + minutesUntil(lesson, step);
  const now = `This step: ${ofStep}${own ? ` of ${own} min` : ""}.`;
  const total = `Since the ${lecture ? "lecture" : "lesson"} began: ${all}; by plan this step ends at ${minutes} min.`;
  setText(view.clock, `${now} ${total}`);
}
