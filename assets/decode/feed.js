// The state of the run in words, and the error message if the run failed.

import { onModels } from "../page/models.js";
import { onFields } from "../page/setup.js";
import { mountFailure } from "../shared/failure.js";
import { count } from "../shared/labels.js";
import { isActive, isExpecting, state, subscribe } from "../shared/store.js";
import { tokensIn } from "../shared/totals.js";
import { onFrame, reducedMotion, setText } from "../shared/view.js";
import { place } from "../shared/waiting.js";
import { mountControls } from "./controls.js";
import { changedWords, isOutOfDate, mountFields, NOTHING_DECODED } from "./fields.js";
import { lostRun } from "./kept.js";
import { ownStory, setStage } from "./opening.js";
import { narration, onPlayer, play, secondsPlayed } from "./player.js";

const FINISH = { length: "length reached", context: "the model's context is full", eos: "end of the text" };

const STATUS = {
  idle: () =>
    state.run === "kept"
      ? lostRun()
        ? `${lostRun()} Your previous run is shown.`
        : "This is your last run, from before the page was loaded again."
      : "Ready.",
  waiting: () =>
    state.place
      ? `Waiting for the model: ${place(state.place)}. Recorded runs and laboratories work without waiting.`
      : isLoading()
        ? "The models are being loaded. Your run begins after that."
        : "Waiting for the model …",
  choosing: () => "Measuring acceptance to choose the tree …",
  running: () => `Generating: ${count(tokensIn(state.rounds), "token")} in ${count(state.rounds.length, "round")}.`,
  baseline: () => "Measuring the time of this run and of plain decoding, in turns …",
  done: () =>
    `Done: ${count(tokensIn(state.rounds), "token")} in ${count(state.rounds.length, "round")}${reason()}, seed ${state.setup.seed}.${resting()}`,
  stopped: () =>
    state.early || state.rounds.length === 0
      ? NOTHING_DECODED
      : `Stopped after ${count(tokensIn(state.rounds), "token")}.`,
  error: () => "",
};

function reason() {
  const finish = state.rounds.at(-1)?.finish;
  return finish ? ` (${FINISH[finish]})` : "";
}

// The note of a finished run that is not shown at its last round.
function resting() {
  const { round } = state.selected;
  return state.follow && round < state.rounds.length - 1 ? ` Shown: round ${round + 1}.` : "";
}

// Plays a visitor's own run from its first round as soon as that round has arrived.
function playOwn() {
  let run = null;
  subscribe(() => {
    if (state.run === run || state.rounds.length === 0) return;
    run = state.run;
    if (state.recorded || run === "kept" || !isExpecting() || reducedMotion()) return;
    play(ownStory(), () => setStage("end"));
  });
}

const isLoading = () => document.body.hasAttribute("data-loading");

export function mountFeed(element, props) {
  const status = element.querySelector(".run-status");
  const tell = mountFailure(element.querySelector(".run-error"), "Go on", mountControls());
  playOwn();
  mountFields();
  const draw = onFrame(() => {
    document.body.dataset.phase = state.phase;
    document.body.dataset.method = state.setup?.method ?? "";
    document.body.toggleAttribute("data-lanes", secondsPlayed() !== null);
    // While a run waits, the opening story that plays belongs to the run before.
    const waits = state.phase === "waiting" || state.phase === "choosing";
    const [words, changes] = [STATUS[state.phase](), changedWords()];
    const hint = isActive() ? `${words} ${changes}` : changes;
    setText(status, waits ? words : changes ? hint : narration() || words);
    // A screen reader announces only the start and the end of a run, not every token or second.
    status.setAttribute("aria-live", state.phase === "running" || state.place ? "off" : "polite");
    tell(isOutOfDate() ? "" : state.message);
  });
  subscribe(draw);
  onPlayer(draw);
  onFields(draw);
  onModels(draw);
}
