// The conversation with a chat model: earlier questions and answers, examples, and the choice of a new one.

import { onModels } from "../page/models.js";
import { isOther, writesCode } from "../page/pair.js";
import { isWriting, state, subscribe } from "../shared/store.js";
import { onFrame } from "../shared/view.js";
import { setFields } from "./fields.js";

const field = () => /** @type {HTMLTextAreaElement} */ (document.querySelector("#prompt textarea"));

let isFresh = false; // whether the next question begins a new conversation

// The conversation before the next question, as the hidden field holds it: a JSON list in which questions and
// answers alternate. If the visitor asks the shown question again, the new answer replaces the old one. Any
// other question continues the conversation.
export function conversation(prompt, history) {
  const { setup, rounds, recorded } = state;
  const earlier = setup?.history ?? [];
  const [isFirst, isSame] = [isFresh, prompt === setup?.prompt];
  isFresh = false; // a typed question continues the conversation, unless the switch says otherwise
  if (!setup || (document.body.hasAttribute("data-linked") && !isFirst)) return isFirst ? "" : history;
  if (isFirst || !setup.chat || (recorded && !isSame)) return "";
  const answer = rounds.reduce((all, { text }) => all + text, "").trim();
  const turns = isSame || answer === "" ? earlier : [...earlier, setup.prompt, answer];
  return turns.length > 0 ? JSON.stringify(turns) : "";
}

const DOUBLE = 500; // milliseconds in which a second click belongs to the first one
let example = null; // the example question that was pressed just now

// Begins a new conversation with this question.
function ask(prompt) {
  if (isWriting() || example === prompt) return;
  example = prompt;
  isFresh = true;
  setFields({ prompt });
  document.getElementById("generate").click();
  setTimeout(() => example === prompt && (example = null), DOUBLE);
}

let answering = []; // names of the models that Generate would use
let lastRun = null; // the run whose question was last written into the field

// After a question was asked, the conversation shows it, and the prompt field looks empty. The field still
// contains the question, because Generate asks it again and the address contains it. The question is
// selected, so that typing replaces it. A visitor who moves the cursor sees the question and can change it.
function drawField(event) {
  const text = field();
  const isShown = Boolean(state.setup?.chat) && text?.value === state.setup.prompt;
  const isAsked = isShown && (state.recorded === null || isOther(answering));
  const isFocused = document.activeElement === text;
  if (isAsked && isFocused && (lastRun !== state.run || event?.type === "focusin")) text.select();
  if (isAsked) lastRun = state.run;
  const isLeftEmpty = event?.type === "focusout" && text?.value === "" && state.setup?.chat && !state.recorded;
  // Generate asks the shown question again, as the page says.
  if (isLeftEmpty) setFields({ prompt: state.setup.prompt });
  const isWhole = () => text.selectionStart === 0 && text.selectionEnd === text.value.length;
  document.body.toggleAttribute("data-asked", isAsked && (!isFocused || isWhole()));
}

export function mountPrompts(element, { chats }) {
  document.body.toggleAttribute("data-chats", chats);
  onModels(({ chats, models }) => {
    if (chats !== undefined) document.body.toggleAttribute("data-chats", chats);
    if (models) document.body.toggleAttribute("data-loading", models.length === 0);
    if (models) answering = models;
    drawField();
    document.body.toggleAttribute("data-codes", writesCode(models));
  });
  element.addEventListener("click", ({ target }) => {
    const button = target.closest("button");
    if (button) ask(button.dataset.prompt);
  });
  // A question that the visitor types replaces the one that was pressed.
  document.addEventListener("input", (event) => {
    if (event.isTrusted && event.target === field()) example = null;
  });
  const turns = element.querySelector(".turns");
  const [followUp, fresh] = turns.querySelectorAll("input");
  turns.addEventListener("change", () => {
    isFresh = fresh.checked;
    field().focus();
  });
  const questions = element.querySelectorAll("button[data-prompt]");
  subscribe(
    onFrame(() => {
      for (const question of questions) question.disabled = isWriting(); // Stop must be pressed first
      turns.hidden = !state.setup?.chat || state.recorded !== null;
      turns.disabled = isWriting(); // it keeps its place, so that Generate and Stop do not move
      [followUp.checked, fresh.checked] = [!isFresh, isFresh];
      drawField();
    }),
  );
  for (const event of ["selectionchange", "focusin", "focusout", "input"]) document.addEventListener(event, drawField);
  document.addEventListener("mousedown", (event) => {
    if (event.target !== field() || !document.body.hasAttribute("data-asked")) return;
    event.preventDefault(); // a first click would put the cursor into the question
    field().focus();
  });
}
