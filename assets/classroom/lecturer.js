// The lecturer's side of a room: the class follows the lesson's step, and its answers are counted and shown.

import * as lessons from "../lessons/panel.js";
import { make, makeButton, setMessage, setText } from "../shared/view.js";
import { forget, LOST, post, reason, recall, remember, spelled, watch } from "./connection.js";
import { drawHistogram } from "./histogram.js";
import { mountDraft } from "./lecturer_draft.js";
import { mountJoin } from "./lecturer_join.js";
import { KEPT } from "./teaching.js";

const LOCAL = /^(localhost|127\.[\d.]+|\[::1\]|.*\.localhost)$/; // names of this machine that no phone knows

let who = null; // { room, token }
let state = null; // the latest state of the room
let lastStep = null; // the step that was last sent to the room
let stop = () => {};
let sending = Promise.resolve(); // actions are sent one after another, because steps must not overtake each other
let unsent = 0; // actions that are not sent yet
const shown = new Set(); // questions whose answers the class has seen
const views = []; // functions that draw, called with { who, state, message }
let message = null;

const key = ({ lesson, step }) => `${lesson}/${step}`;
const draw = () => views.forEach((view) => view({ who, state, message }));

function tell(text) {
  message = text;
  draw();
}

// ---------------------------------------------------------------- the room

async function open() {
  try {
    const { room, key: token } = await post("open");
    lead({ room, token });
    stepped();
  } catch (error) {
    tell(reason(error));
  }
}

function lead(room) {
  stop();
  who = room;
  state = lastStep = message = null;
  shown.clear();
  remember(KEPT, who);
  lessons.teach({ isShown: (lesson, step) => shown.has(key({ lesson, step })), show: reveal });
  stop = watch(who, { seen: onState, gone: leave, lost: (whether) => tell(whether ? LOST : null) });
  draw();
}

// Follows the room of this browser, if it is another one than before.
function enter() {
  const entry = recall(KEPT);
  if (entry && entry.token !== who?.token) lead(entry);
  else draw();
}

function leave(text) {
  stop();
  forget(KEPT, who);
  who = state = lastStep = null;
  shown.clear();
  lessons.teach(null);
  tell(text);
}

async function close() {
  await send("close");
  if (message === null) leave(null);
}

// Sends an action of the lecturer. Actions go out in order; the server answers with the new view.
export function send(name, body = {}) {
  const ask = async () => {
    try {
      return await (who && post(name, { room: who.room, ...body }, who.token));
    } finally {
      unsent -= 1;
    }
  };
  const act = async () => {
    try {
      const answer = await ask();
      message = null;
      if (answer?.version !== undefined) take(answer);
    } catch (error) {
      if (error.isGone) leave(error.message);
      else tell(reason(error));
    }
  };
  unsent += 1;
  sending = sending.then(act);
  return sending;
}

// Takes a new state of the room and removes the message of a lost connection: the server has answered.
function onState(news) {
  if (message === LOST) message = null;
  take(news);
}

function take(news) {
  if (state && news.version < state.version) return;
  state = news;
  if (state.place) unsent || follow(state.place);
  else if (state.draft) lastStep = null;
  else unsent || stepped();
  draw();
}

// Opens the step of the lesson at which the room is. Another window of this lecturer may have changed it.
function follow(place) {
  const isNew = place.shown !== shown.has(key(place));
  if (place.shown) shown.add(key(place));
  else shown.delete(key(place));
  if (key(place) !== lastStep) {
    lastStep = key(place);
    lessons.goTo(place.lesson, place.step);
  } else if (isNew && lessons.place()) lessons.refresh();
}

function stepped() {
  const place = lessons.place();
  if (!who || !place || key(place) === lastStep) return draw();
  lastStep = key(place);
  draw();
  send("step", { lesson: place.lesson, step: place.step, shown: shown.has(lastStep) });
}

// Shows the answers to the open question.
function reveal() {
  const { lesson, step } = lessons.place();
  send("step", { lesson, step, shown: true });
}

const present = ({ here = 0 }) => (here === 1 ? "1 student is here" : `${here} students are here`);

// ---------------------------------------------------------------- within the lesson

function inLesson(join) {
  const bar = document.querySelector("#lesson .lesson");
  const chip = makeButton("class-chip", [], join);
  chip.hidden = true;
  bar.querySelector(".place").after(chip);
  const [answered, figure] = [make("p", "answered"), make("div", "drawn")];
  answered.setAttribute("role", "status");
  const button = makeButton("reveal", "Show the answers", reveal);
  const repeat = makeButton("again", "Ask again", () => send("again"));
  const section = make("section", "class", answered, figure, button, repeat);
  section.hidden = true;
  const trouble = Object.assign(make("p", "error-box trouble"), { hidden: true });
  trouble.setAttribute("role", "alert");
  bar.querySelector(".body .outcome").before(section);
  bar.querySelector(".body").prepend(trouble);

  return () => {
    const place = lessons.place();
    const isHere = Boolean(who && place && state?.place && key(state.place) === key(place));
    setMessage(trouble, message);
    chip.hidden = !who;
    if (who) setText(chip, `Class ${spelled(who.room)} · ${state?.here ?? 0} here`);
    section.hidden = !isHere || !state.question;
    if (section.hidden) return;
    const { place: room, question, counts, answered: number, here } = state;
    button.hidden = room.shown;
    repeat.hidden = !room.shown;
    setText(answered, room.shown ? "" : `${number} of ${Math.max(here, number)} have answered`);
    answered.style.setProperty("--share", String(number / Math.max(1, here, number)));
    const drawing = JSON.stringify([key(room), counts ?? null]);
    if (figure.dataset.drawn === drawing) return;
    figure.dataset.drawn = drawing;
    if (!room.shown) return figure.replaceChildren(...choices(question));
    drawHistogram(figure, question, counts);
    lessons.bring(figure);
  };
}

// Lists the choices, large enough to be read from the last row.
function choices({ choices: texts = [] }) {
  if (texts.length === 0) return [];
  return [make("ol", "offered", ...texts.map((text) => make("li", "", text)))];
}

// ---------------------------------------------------------------- mounting

let join = () => {};
let showDraft = () => {};

export function mountClassBar(element, _, server) {
  const joining = mountJoin(element.querySelector(".class-join"), server, present);
  const drafting = mountDraft(element.querySelector(".class-draft"), send);
  [join, showDraft] = [joining.show, drafting.show];
  const drawLesson = inLesson(() => join());
  views.push(joining.draw, drafting.draw, drawLesson);
  addEventListener("storage", ({ key }) => key === KEPT && enter()); // another window opened a room
  lessons.arrived.then(() => {
    // The step of the room is opened, not that in the address: the class may be at another step by now.
    lessons.onStep(stepped);
    enter();
  });
}

export function mountClassroom(element) {
  const find = (selector) => element.querySelector(selector);
  find(".local").hidden = !LOCAL.test(location.hostname);
  const on = (selector, act) => find(selector).addEventListener("click", act);
  on("button.open", async () => {
    await open();
    if (who) join();
  });
  on(".code-shown", () => join());
  on("button.draft", () => showDraft());
  on("button.clear", () => send("clear"));
  const end = find("button.end");
  const [usual, sure] = [end.textContent, "Close it and delete the answers"];
  on("button.end", () => {
    const isSure = end.textContent === sure || !state?.here;
    setText(end, isSure ? usual : sure);
    if (isSure) close();
  });
  end.addEventListener("blur", () => setText(end, usual));
  /** @type {HTMLButtonElement} */ (find("button.open")).disabled = false;
  const view = () => {
    find(".closed").hidden = Boolean(who);
    find(".opened").hidden = !who;
    if (who) find("details").open = true;
    if (who) setText(find(".code"), spelled(who.room));
    if (who) setText(find(".here"), present(state ?? {}));
    setMessage(find(".message"), message);
  };
  views.push(view);
  view();
}
