// The panel beside the tree: the gain of the run and what to do next, or the race of the pressed word.

/** @import { State } from "../types.d.ts" */

import { keep, keptText } from "../shared/memory.js";
import { isMeasured, resultWords, speed } from "../shared/speed.js";
import { isExpecting, state, subscribe } from "../shared/store.js";
import { sum, Totals } from "../shared/totals.js";
import { makeButton, onceDrawn, onFrame, setText, zoomOf } from "../shared/view.js";
import { account } from "./lanes.js";
import { setStage, stage } from "./opening.js";
import { isPlaying, onPlayer, pause } from "./player.js";

const WHY = "specdec.why"; // stored once the visitor has opened the race
const SIMILAR = 0.1; // gains that differ by less than this count as equal

let recording = null; // the figures of the recorded run that was shown last

// The numbers that determine a run's gain. times: its speed relative to plain decoding, or null if that is not known
// precisely. tokens: per call of the large model. rate: the acceptance of the first guess. step: the time of a small model's
// call divided by that of a plain call of the large model. The last two are null if they are not known.
/** @param {State} run */
export function figuresOf(run) {
  const totals = new Totals().addAll(run.rounds);
  if (run.rounds.length === 0 || totals.drafted === 0) return null;
  const result = isMeasured(run) ? speed(run) : null;
  const times = result && !result.isBusy ? result.times : null;
  const plain = sum(run.baseline.map(({ seconds }) => seconds.evaluate)) / run.baseline.length;
  const step = times === null || totals.levels === 0 ? null : totals.seconds.draft / totals.levels / plain;
  const rate = totals.acceptance.rate_by_index[0] ?? null;
  return { times, tokens: totals.tokens / totals.rounds, rate, step };
}

// The reason why a run gains less or more than the recorded one: those of the gain's two factors that made it so.
export function reasonWords(own, other) {
  if (own.times === null || other.times === null) return "";
  const difference = own.times - other.times;
  const side = Math.abs(difference) < SIMILAR ? "about" : difference < 0 ? "below" : "above";
  const gain = `The gain is ${side} the recording's ${other.times.toFixed(1)} times`;
  if (side === "about") return `${gain}.`;
  const [yields, lasts] = [({ tokens }) => tokens, ({ tokens, times }) => tokens / times];
  const both = (value, unit) => `${value(own).toFixed(2)} ${unit} (recording: ${value(other).toFixed(2)})`;
  const reasons = [
    (yields(own) - yields(other)) * difference > 0 ? `yields ${both(yields, "tokens")}` : "",
    (lasts(own) - lasts(other)) * difference < 0 ? `takes ${both(lasts, "times as long as a plain one")}` : "",
  ];
  return `${gain}, because a call with guesses ${reasons.filter(Boolean).join(" and ")}.`;
}

// A link to “Will it pay?” with the loaded pair, this run's acceptance and the cost of its guesses.
export function payoffLink({ rate, step }) {
  const query = new URLSearchParams({ tab: "payoff", "payoff.preset": "here" });
  if (rate !== null) query.set("payoff.acceptance", Math.max(0.01, rate).toFixed(2));
  if (step !== null) query.set("payoff.draft_step", Math.min(1.5, step).toFixed(3));
  return `?${query}`;
}

function gainWords() {
  if (state.setup === null) return ["", ""]; // the next run has not begun yet
  const result = isMeasured(state) ? speed(state) : null;
  if (result === null || result.isBusy || state.setup.method === "ar") return ["", account()];
  const steps = `${state.rounds.length} slow calls of the large model instead of ${state.baseline.length}. Each of them also waits for guesses.`;
  return [resultWords(state, result, false), steps];
}

function place(isOpen) {
  if (["line", "bars"].includes(stage())) return "none";
  if (isOpen) return "race";
  if (["end", "stills"].includes(stage())) return "result";
  const grows = isPlaying() || (isExpecting() && state.phase !== "baseline");
  return grows || state.rounds.length === 0 ? "none" : "result";
}

// The button beside a pressed word, which opens its race.
function whyButton(open) {
  const texts = document.querySelector("#text .texts");
  const button = makeButton("why", "Why this word?", () => {
    button.hidden = true;
    open();
  });
  button.hidden = true;
  texts.append(button);
  let word = null;
  texts.querySelector(".tokens").addEventListener("click", (event) => {
    word = /** @type {Element} */ (event.target).closest(".token");
    button.hidden = word === null;
    if (word) onceDrawn(() => stand());
  });
  const stand = () => {
    if (!word) return;
    const [box, place] = [texts, word].map((element) => element.getBoundingClientRect());
    const zoom = zoomOf(texts);
    const [width, height] = [button.offsetWidth * zoom, button.offsetHeight * zoom];
    const left = Math.min(place.left - box.left, box.width - width);
    const top = (place.bottom + height > box.bottom ? place.top - height : place.bottom) - box.top;
    button.hidden = place.bottom < box.top || place.top > box.bottom;
    button.style.translate = `${Math.max(0, left) / zoom}px ${Math.max(0, top) / zoom}px`;
  };
  texts.querySelector(".story").addEventListener("scroll", () => button.hidden || stand());
  return button;
}

export function mountAside(element) {
  const find = (selector) => element.querySelector(selector);
  const names = new URLSearchParams(location.search);
  // A link to a moment in a run shows the race of that moment.
  let isOpen = keptText(WHY) !== null || names.has("round") || names.has("decision");
  let run = null;
  const draw = onFrame(() => {
    if (state.run !== run && stage() === "end") setStage("");
    if (state.run !== run || isPlaying()) button.hidden = true;
    run = state.run;
    if (state.recorded) recording = figuresOf(state) ?? recording;
    const old = element.dataset.aside;
    element.dataset.aside = place(isOpen);
    if (element.dataset.aside !== "result") return;
    // On a phone this panel comes first.
    if (old !== "result") onceDrawn(() => void (element.parentElement.scrollLeft = 0));
    const [gain, same] = gainWords();
    setText(find(".gain"), gain);
    setText(find(".same span"), same);
    const own = state.recorded || isExpecting() ? null : figuresOf(state);
    setText(find(".reason span"), own && recording ? reasonWords(own, recording) : "");
    find(".measure").hidden = own?.times !== null || state.phase === "stopped";
    find(".pays").href = own ? payoffLink(own) : "?tab=payoff";
  });
  const open = () => {
    isOpen = true;
    keep(WHY, "");
    setStage("");
    draw();
    onceDrawn(() => void (element.parentElement.scrollLeft = element.parentElement.scrollWidth)); // on a phone, to the race
  };
  const button = whyButton(open);
  // With the keyboard, Enter on the text opens the race of the word that the arrow keys have reached.
  const story = /** @type {HTMLElement} */ (document.querySelector("#text .story"));
  story.addEventListener("keydown", ({ key }) => {
    if (key !== "Enter" || state.rounds.length === 0) return;
    pause();
    open();
  });
  find(".try").addEventListener("click", () => {
    const prompt = /** @type {HTMLTextAreaElement} */ (document.querySelector("#prompt textarea"));
    prompt.focus();
    prompt.select();
  });
  // Pressing a word or moving through the run does not close a race that the visitor has opened.
  document.addEventListener("click", ({ target }) => {
    if (stage() !== "end" || !isOpen || !(/** @type {Element} */ (target).closest("#stepper, .token, .node"))) return;
    setStage("");
    draw();
  });
  subscribe(draw);
  onPlayer(draw);
}
