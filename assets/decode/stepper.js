// The controls that play a run or move through it by one decision or one round: buttons, a slider and keys.

import { count as counted } from "../shared/labels.js";
import * as store from "../shared/store.js";
import { blockEfficiency } from "../shared/totals.js";
import { onFrame, setText } from "../shared/view.js";
import { isPlaying, manually, mountKeys, onPlayer, paceNow, pause, play, setPace, skip } from "./player.js";
import { shownTotals } from "./statistics.js";

const { state } = store;

function place() {
  const count = state.rounds.length;
  if (count === 0) return "no rounds yet";
  const { round } = state.selected;
  if (state.follow && !store.isWriting() && !isPlaying())
    return round < count - 1 ? `round ${round + 1} of ${count}, all played` : `${counted(count, "round")}, all played`;
  return `round ${round + 1} of ${count}, step ${state.decision + 1} of ${store.decisionsOf(round).length}`;
}

export function mountStepper(element) {
  const find = (selector) => element.querySelector(selector);
  const buttons = {
    ".first": () => store.seek(0, 0),
    ".previous": () => store.moveRound(-1),
    ".back": () => store.moveDecision(-1),
    ".forward": () => store.moveDecision(1),
    ".next": () => store.moveRound(1),
    ".live": store.toEnd,
  };
  for (const [name, move] of Object.entries(buttons)) find(name).addEventListener("click", () => manually(move));
  const [toggle, slider, output, speed] = [".play", "input", "output", ".speed"].map(find);
  toggle.addEventListener("click", () => (isPlaying() ? pause() : play()));
  slider.addEventListener("input", () => manually(() => store.seek(Number(slider.value))));
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
    for (const name of [".forward", ".next"]) find(name).disabled = count === 0 || store.atEnd();
    find(".live").setAttribute("aria-pressed", String(state.follow && count > 0));
    speed.value = paceNow();
    setText(find(".play .sign"), isPlaying() ? "❚❚" : "▶");
    find(".skip").disabled = !isPlaying();
    setText(find(".play .word"), isPlaying() ? "pause" : "play");
    slider.setAttribute("aria-valuetext", place());
    setText(output, place());
    const { tokens, rounds } = shownTotals();
    setText(find(".live-figure b"), blockEfficiency(tokens, rounds));
    setText(find(".live-figure .mean"), rounds < count || store.isWriting() ? ", so far" : ", on average");
  });
  store.subscribe(draw);
  onPlayer(draw);
}
