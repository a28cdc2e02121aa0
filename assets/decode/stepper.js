// The controls that play a run or move through it by one decision or one round: buttons, a slider and keys.

import { count as counted } from "../shared/labels.js";
import {
  atEnd,
  decisionsOf,
  isWriting,
  moveDecision,
  moveRound,
  seek,
  state,
  subscribe,
  toEnd,
} from "../shared/store.js";
import { blockEfficiency } from "../shared/totals.js";
import { onFrame, setText } from "../shared/view.js";
import { isPlaying, manually, mountKeys, onPlayer, paceNow, pause, play, setPace, skip } from "./player.js";
import { shownTotals } from "./statistics.js";

function place() {
  const count = state.rounds.length;
  if (count === 0) return "no rounds yet";
  const { round } = state.selected;
  if (state.follow && !isWriting() && !isPlaying())
    return round < count - 1 ? `round ${round + 1} of ${count}, all played` : `${counted(count, "round")}, all played`;
  return `round ${round + 1} of ${count}, step ${state.decision + 1} of ${decisionsOf(round).length}`;
}

export function mountStepper(element) {
  const find = (selector) => element.querySelector(selector);
  const buttons = {
    ".first": () => seek(0, 0),
    ".previous": () => moveRound(-1),
    ".back": () => moveDecision(-1),
    ".forward": () => moveDecision(1),
    ".next": () => moveRound(1),
    ".live": toEnd,
  };
  for (const [name, move] of Object.entries(buttons)) find(name).addEventListener("click", () => manually(move));
  const [toggle, slider, output, speed] = [".play", "input", "output", ".speed"].map(find);
  toggle.addEventListener("click", () => (isPlaying() ? pause() : play()));
  slider.addEventListener("input", () => manually(() => seek(Number(slider.value))));
  speed.addEventListener("change", () => setPace(speed.value));
  find(".skip").addEventListener("click", skip);
  mountKeys();

  const draw = onFrame(() => {
    const count = state.rounds.length;
    const { round } = state.selected;
    slider.max = String(Math.max(count - 1, 0));
    slider.value = String(Math.max(round, 0));
    for (const control of [slider, find(".live"), toggle]) control.disabled = count === 0;
    const atStart = round <= 0 && state.decision <= 0;
    for (const name of [".first", ".previous", ".back"]) find(name).disabled = atStart;
    for (const name of [".forward", ".next"]) find(name).disabled = count === 0 || atEnd();
    find(".live").setAttribute("aria-pressed", String(state.follow && count > 0));
    speed.value = paceNow();
    setText(find(".play .sign"), isPlaying() ? "❚❚" : "▶");
    find(".skip").disabled = !isPlaying();
    setText(find(".play .word"), isPlaying() ? "pause" : "play");
    slider.setAttribute("aria-valuetext", place());
    setText(output, place());
    const { tokens, rounds } = shownTotals();
    setText(find(".live-figure b"), blockEfficiency(tokens, rounds));
    setText(find(".live-figure .mean"), rounds < count || isWriting() ? ", so far" : ", on average");
  });
  subscribe(draw);
  onPlayer(draw);
}
