// The opening story for a new visitor. First, two rounds are explained slowly in one line of text. Then two
// bars show the run and plain decoding at their recorded speeds. At the end the page says what to press next.

import { appendText, spoken, tokenElement } from "../shared/labels.js";
import { isMeasured, missingWords } from "../shared/speed.js";
import { decisionsOf, isExpecting, lastDecision, seek, showAll, state } from "../shared/store.js";
import { make, setText } from "../shared/view.js";
import { linesOf } from "./code.js";
import { isPlaying, isReal, onPlayer, paceNow, skip } from "./player.js";

/** @import { Round } from "../types.d.ts" */

let view = null; // the line, its caption and the still pictures of the page

const NUMBERS = ["none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
const number = (n) => NUMBERS[n] ?? String(n);
const capital = (text) => text[0].toUpperCase() + text.slice(1);
const count = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;
const BARS = 6; // duration of the bars in seconds, if the run is too fast to follow
const BEFORE = 2; // number of text lines before the explained one
const FEWER = "Each call reads the large model from memory once, for one token or several.";
const TOGETHER = "Played again: the run beside plain decoding, in real time.";
const STEPS = ["guessed", "checked", "right", "written"]; // the steps of a round

// The part of the story that is on the screen: "line", "bars", "end", or "" outside of it.
export const stage = () => document.body.dataset.stage ?? "";
export function setStage(name) {
  document.body.dataset.stage = name;
}

// The sentence while both bars run. It also says if plain decoding was stopped before its end.
const wordsOr = (sentence = FEWER) => (!isMeasured(state) && !isExpecting() ? missingWords(state) : sentence);

// The guesses on one path of the tree: first the accepted ones, then a rejected one and the guesses after it.
/** @param {Round} round */
export function guessesOf({ nodes }) {
  const line = [];
  for (;;) {
    const parent = (line.at(-1)?.path ?? []).join();
    const below = nodes.filter(({ path }) => path.length === line.length + 1 && path.slice(0, -1).join() === parent);
    const next = ["accepted", "rejected"].map((each) => below.find(({ status }) => status === each)).find(Boolean);
    if (!next && below.length === 0) return line;
    line.push(next ?? below[0]);
  }
}

const rightOf = ({ tokens }) => tokens.filter(({ kind }) => kind === "accepted").length;

// The sentence of each step of a round. isSecond: whether it is the second explained round.
/** @param {Round} round */
export function captions(round, isSecond = false) {
  const guesses = guessesOf(round);
  const [all, right, last] = [guesses.length, rightOf(round), round.tokens.at(-1)];
  const [drafted, isTree] = [round.nodes.length, round.nodes.length > all];
  const drafts = `${count(drafted, "token")}${isTree ? ", as a tree" : ""}`;
  const gain = `${count(round.tokens.length, "token")} for one slow call`;
  const outcome = right === 0 ? "None is right." : right === drafted ? "All are right and stay." : "";
  const wrong = guesses[right] ? `${spoken(guesses[right].text)} is wrong: the` : "The";
  return {
    guessed: isSecond
      ? `The small model guesses again: ${drafts}.`
      : `The small model guesses ahead: ${drafts} (words or parts).`,
    checked: `The large model checks ${drafted === 1 ? "it" : `all ${number(drafted)} at once`}, in one slow call.`,
    right: outcome || `${capital(number(right))} of them ${right === 1 ? "is right and stays" : "are right and stay"}.`,
    written:
      last.kind === "accepted"
        ? `The text grows by ${gain}.`
        : right === all
          ? `The large model adds ${spoken(last.text)} of its own: ${gain}.`
          : `${wrong} large model writes ${spoken(last.text)}: ${gain}.`,
  };
}

// The words of a round that are visible at one of its steps.
/** @param {Round} round */
function words(round, step, isCode) {
  const right = rightOf(round);
  const [isRight, isWritten] = [STEPS.indexOf(step) >= 2, step === "written"];
  const own = round.tokens.slice(right).map(({ kind, text }) => tokenElement(kind, text));
  const guesses = guessesOf(round).slice(0, isWritten ? right + 1 : Infinity);
  const kindOf = (i) => (i < right && isRight ? "accepted" : isWritten ? "rejected" : "ghost");
  const elements = guesses.map(({ text }, i) => {
    const word = i < right ? round.tokens[i].text : isWritten ? text.trim() || text : text;
    const element = tokenElement(kindOf(i), word);
    element.style.setProperty("--at", String(i));
    return element;
  });
  // in code a rejected word would move the indentation of its replacement
  const [accepted, rejected] = isWritten && isCode ? [elements.slice(0, right), elements.slice(right)] : [elements, []];
  return make("span", `guesses ${step}`, ...accepted, ...(isWritten ? own : []), ...rejected);
}

// Writes the line: the text before the first explained round, the explained rounds, and the current one at a step.
function drawLine(line, first, round, step) {
  const pieces = state.rounds
    .slice(0, first)
    .map(({ text, tokens }) => text || tokens.map((each) => each.text).join(""));
  const lines = linesOf(pieces.join(""));
  const start = make("span", "before");
  for (const each of lines.slice(-BEFORE)) appendText(start, each.line);
  const isCode = lines.at(-1)?.isCode ?? false;
  line.classList.toggle("code", isCode);
  const earlier = state.rounds.slice(first, round).map((each) => words(each, "written", isCode));
  line.replaceChildren(start, ...earlier, words(state.rounds[round], step, isCode));
}

// The decision that the other panels show while the story explains this step of a round.
function decisionAt(round, step) {
  const accepted = decisionsOf(round).findLastIndex(({ kind }) => kind === "accepted");
  return { guessed: 0, checked: 0, right: Math.max(accepted, 0), written: lastDecision(round) }[step];
}

const SECONDS = [
  { guessed: 2.6, checked: 1.7, right: 1.4, written: 2.1 },
  { guessed: 1.6, checked: 1, written: 1.8 },
];

// The explained rounds: the most instructive one and the next.
function toldRounds() {
  const first = state.recorded?.round ?? 0;
  return [first, first + 1].filter((round) => state.rounds[round]?.nodes.length > 0);
}

function tellStep(round, step) {
  setStage("line");
  seek(round, decisionAt(round, step));
  const [first] = toldRounds();
  const caption = captions(state.rounds[round], round > first)[step];
  drawLine(view.line, first, round, step);
  setText(view.caption, caption);
  return caption;
}

export function story() {
  const rounds = toldRounds();
  if (rounds.length === 0) return [{}];
  const moments = rounds.flatMap((round, i) =>
    Object.entries(SECONDS[i]).map(([step, seconds]) => ({ move: () => tellStep(round, step), words: "", seconds })),
  );
  const seconds = isReal() ? undefined : BARS;
  const bars = { again: true, seconds, words: () => wordsOr(), begin: () => setStage("bars") };
  return [...moments, ...(isMeasured(state) ? [bars] : [])];
}

// Three still pictures for visitors who prefer reduced motion. They stay until the visitor presses something.
export function showStills() {
  const [first] = toldRounds();
  showAll();
  if (first === undefined) return;
  setStage("stills");
  const all = captions(state.rounds[first]);
  const pictures = ["guessed", "right", "written"].map((step) => {
    const [line, caption] = [make("p", "line"), make("p", "caption", all[step])];
    drawLine(line, first, first, step);
    line.firstChild.remove();
    return make("div", "", caption, line);
  });
  view.stills.replaceChildren(...pictures);
}

// The parts of the play after Generate. In real time, the answer is played again together with plain decoding.
export function ownStory() {
  if (state.setup.method === "ar") return [{}];
  if (paceNow() === "real") return [{}, { again: true, words: () => wordsOr(TOGETHER) }];
  return [{ words: state.setup.baseline ? () => wordsOr() : "" }];
}

const FIELDS = "input, textarea, select, [contenteditable]";
const SKIPPED = [" ", "ArrowLeft", "ArrowRight", "Escape"]; // these keys only end the story
const isTold = () => ["line", "bars", "stills"].includes(stage());

// Any key and any press ends the story. The player's own buttons also do what they say.
function end(event) {
  if (!isTold() || ["Tab", "Shift", "Control", "Alt", "Meta"].includes(event.key)) return;
  const target = /** @type {Element} */ (event.target);
  if (event.type === "pointerdown" && target.closest("#stepper")) return;
  if (SKIPPED.includes(event.key) && !target.closest(`${FIELDS}, button, a`)) event.preventDefault();
  skip();
  setStage("end");
}

export function mountOpening(element) {
  view = { line: make("p", "line"), caption: make("p", "caption"), stills: make("div", "stills") };
  view.caption.setAttribute("aria-live", "polite");
  element.querySelector("section").append(make("div", "slow", view.line, view.caption, view.stills));
  document.addEventListener("keydown", end, true);
  document.addEventListener("pointerdown", end, true);
  onPlayer(() => ["line", "bars"].includes(stage()) && !isPlaying() && setStage("end"));
}
