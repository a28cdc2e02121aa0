// The student's page: it shows the lecturer's step or earlier ones, and takes one answer per question.

import { ask, feedback, isRight, textOf } from "../lessons/question.js";
import { make, setMessage, setText } from "../shared/view.js";
import { forget, LOST, post, reason, recall, remember, spelled, watch } from "./connection.js";
import { drawProposals, drawScores, drawText } from "./draft.js";
import { drawHistogram } from "./histogram.js";

const KEPT = "specdec.class.student";
const find = (selector) => document.querySelector(selector);
/** @type {(selector: string) => HTMLInputElement} */
const field = (selector) => document.querySelector(selector);

let who = null; // { room, token }
let stop = () => {};
let state = null; // the latest state of the room
let pastIndex = -1; // the index in `past` of the step that is shown; -1: the lecturer's step
const past = []; // states of lesson steps, in order of arrival

const keyOf = ({ place, draft }) => (place ? `${place.lesson}/${place.step}` : draft ? `draft/${draft.number}` : "");

const tell = (message) => setMessage(find(".message"), message);

// ---------------------------------------------------------------- joining and leaving

async function join(code) {
  try {
    enter(await post("join", { room: code }));
  } catch (error) {
    leave(reason(error));
  }
}

function enter(room) {
  who = room;
  remember(KEPT, who);
  tell(null);
  find(".join").hidden = true;
  find(".leave").hidden = false;
  setText(find("header .code"), `Class ${spelled(who.room)}`);
  follow();
}

function follow() {
  stop();
  stop = watch(who, { seen: take, gone: leave, lost: (whether) => tell(whether ? LOST : null) });
}

function leave(message) {
  stop();
  if (who) field("#code").value = spelled(who.room);
  forget(KEPT, who);
  who = state = null;
  past.length = 0;
  pastIndex = -1;
  lastDrawing = "";
  find(".join").hidden = false;
  find(".lesson").hidden = find("footer").hidden = find(".leave").hidden = true;
  setText(find("header .code"), "");
  tell(message);
}

function take(news) {
  if (news.version !== state?.version) tell(null);
  state = news;
  if (state.place) {
    const index = past.findIndex((other) => keyOf(other) === keyOf(state));
    if (index < 0) past.push(state);
    else past[index] = state;
  }
  draw();
}

// ---------------------------------------------------------------- the step that is shown

let lastDrawing = ""; // the state that was drawn last; a form that is being filled in is not drawn again

function draw() {
  const step = pastIndex < 0 ? state : past[pastIndex];
  const { mine, place, draft } = step;
  const progress = place?.shown ?? [draft?.number, draft?.proposals, draft?.checking];
  const drawing = JSON.stringify([keyOf(step), pastIndex < 0, mine ?? null, progress]);
  drawFooter(step);
  if (drawing === lastDrawing) return;
  const isNew = keyOf(step) !== JSON.parse(lastDrawing || "[]")[0];
  lastDrawing = drawing;
  find(".lesson").hidden = false;
  for (const selector of [".answer", ".propose", ".lesson .text"]) find(selector).hidden = true;
  for (const selector of [".outcome", ".drawn", ".why"]) find(selector).replaceChildren();
  if (place) drawStep(step);
  else if (draft) drawDraft(step);
  else drawWords("", "You are in", "Wait for the lecturer to begin. This page then follows the lecturer by itself.");
  if (isNew) scrollTo(0, 0);
}

function drawWords(place, title, words) {
  setText(find(".lesson .place"), place);
  setText(find(".lesson h2"), title);
  find(".words").replaceChildren(...words.split("\n").map((text) => make("p", "", text)));
}

function drawStep({ place, title, of, words, question, mine, counts }) {
  drawWords(`Step ${place.step + 1} of ${of}`, title, words);
  if (!question) return;
  const hasAnswer = mine !== null && mine !== undefined;
  if (!hasAnswer && !place.shown && pastIndex < 0) return drawQuestion(question, place);
  if (!hasAnswer) verdict("You sent no answer to this question.");
  else if (place.shown) verdict(feedback(question, mine), isRight(question, mine) ? " right" : " off");
  else verdict(`Sent: ${textOf(question, mine)}. Wait for the others.`);
  if (!place.shown) return;
  setText(find(".why"), question.why);
  drawHistogram(find(".drawn"), question, counts, mine);
}

const verdict = (text, kind = "") => find(".outcome").append(make("p", `verdict${kind}`, text));

function drawQuestion(question, place) {
  const form = find(".answer");
  const send = field(".answer .reveal");
  form.hidden = false;
  send.disabled = true;
  const value = ask(find(".options"), question, undefined, () => (send.disabled = false));
  form.onsubmit = (event) => {
    event.preventDefault();
    submit(send, "answer", { lesson: place.lesson, step: place.step, value: value() });
  };
}

function drawDraft({ draft, mine }) {
  const words = "The whole class guesses, and the large model checks your most frequent guesses.";
  drawWords(`Word ${draft.number}`, "You are the draft", words);
  find(".lesson .text").hidden = false;
  drawText(find(".lesson .text"), draft);
  const scores = make("div");
  drawScores(scores, draft);
  find(".drawn").append(scores);
  if (draft.proposals) {
    const list = make("div");
    drawProposals(list, draft, mine ?? null);
    find(".outcome").append(list);
    if (draft.ended) verdict("The text ends here.");
  } else if (mine) verdict(`Sent: “${mine}”. Wait for the others.`);
  else if (!draft.checking) drawProposal(draft);
  else verdict("The large model checks …");
}

function drawProposal({ number }) {
  const [form, input, send] = [find(".propose"), field("#proposal"), field(".propose .reveal")];
  form.hidden = send.disabled = false; // the previous guess disabled it
  input.value = "";
  form.onsubmit = (event) => {
    event.preventDefault();
    if (input.value.trim()) submit(send, "propose", { number, text: input.value });
  };
}

// Sends one answer, which counts when the server has it. Meanwhile the class may be at another question.
async function submit(button, name, body) {
  const step = keyOf(state);
  button.disabled = true;
  try {
    await post(name, { room: who.room, ...body }, who.token);
    tell(null);
    if (keyOf(state) === step) take({ ...state, mine: name === "answer" ? body.value : body.text.trim() });
    find("h2").focus({ preventScroll: true }); // the form that had the focus is now hidden
  } catch (error) {
    if (error.isGone) return leave(error.message);
    if (keyOf(state) !== step) return;
    tell(reason(error));
    button.disabled = false;
    if (error.status === 409) follow(); // another tab may have sent an answer
  }
}

// ---------------------------------------------------------------- following the lecturer, and looking back

function drawFooter(step) {
  const index = past.findIndex((other) => keyOf(other) === keyOf(step));
  const previous = index < 0 ? past.length - 1 : index - 1;
  const follows = pastIndex < 0;
  find("footer").hidden = past.length === 0;
  field(".back").disabled = previous < 0;
  field(".on").hidden = follows;
  field(".on").disabled = index + 1 >= past.length;
  field(".follow").hidden = follows;
  find(".back").onclick = () => go(previous);
  find(".on").onclick = () => go(index + 1);
  const link = /** @type {HTMLAnchorElement} */ (find(".whole"));
  // The full page shows the answer of this step.
  link.hidden = !step.place || Boolean(step.question && !step.place.shown);
  if (step.place) link.href = `./?lesson=${step.place.lesson}&step=${step.place.step + 1}`;
}

function go(index) {
  pastIndex = index;
  draw();
}

find(".follow").addEventListener("click", () => go(-1));
find(".leave").addEventListener("click", () => leave(null));
find(".join").addEventListener("submit", (event) => {
  event.preventDefault();
  join(field("#code").value);
});

const code = new URLSearchParams(location.search).get("room");
const entry = recall(KEPT);
if (entry && (code === null || code === entry.room)) enter(entry);
else if (code) join(code);
else find(".join").hidden = false;
