// Two lanes on one clock: this run and autoregressive decoding, each as far as it had written after the same measured
// seconds. Only what was measured is shown.

import { METHODS } from "../shared/catalogue.js";
import { appendText } from "../shared/labels.js";
import { lastDecision, state, subscribe } from "../shared/store.js";
import { decodingSeconds } from "../shared/totals.js";
import { onceDrawn, onFrame, setText } from "../shared/view.js";
import { isPlaying, onPlayer, slowness, underWay } from "./player.js";

const TICK = 100; // milliseconds between two states of the clock: digits that change faster can't be read

// Where the rounds of a list end, in seconds and tokens; read once each.
class Ends {
  /** @param {import("../types.d.ts").Round[]} rounds */
  constructor(rounds) {
    this.rounds = rounds;
    this.seconds = [0];
    this.tokens = [0];
  }

  grow() {
    for (let i = this.seconds.length - 1; i < this.rounds.length; i++) {
      this.seconds.push(this.seconds[i] + decodingSeconds(this.rounds[i]));
      this.tokens.push(this.tokens[i] + this.rounds[i].tokens.length);
    }
    return this;
  }

  get total() {
    return this.seconds.at(-1);
  }

  // How many rounds have ended after so many seconds.
  after(seconds) {
    const late = this.seconds.findIndex((end) => end > seconds + 1e-9);
    return (late < 0 ? this.seconds.length : late) - 1;
  }
}

// Seconds into the run at the moment that is shown: a round's tokens are there when it ends, its draft before. Where
// nothing is hidden, all of the run has passed.
function shownSeconds(ends) {
  if (!state.veiled) return ends.total;
  const { round } = state.selected;
  const last = lastDecision(round);
  if (state.decision === 0 && last > 0)
    return ends.seconds[round] + Math.max(state.rounds[round].seconds.draft, underWay());
  return ends.seconds[round + 1] + (state.decision === last ? underWay() : 0);
}

function ratio(run, baseline) {
  const times = baseline.total / baseline.tokens.at(-1) / (run.total / run.tokens.at(-1));
  return times < 1 ? `slower here: ${times.toFixed(2)} times as fast` : `${times.toFixed(2)} times as fast`;
}

const seconds = (value) => (value < 10 ? value.toFixed(2) : value.toFixed(1));

export function mountLanes(element) {
  const box = element.querySelector(".race-of-two");
  const [first, second] = box.querySelectorAll(".lane");
  const text = box.querySelector(".slower-text");
  let [run, ends, others, written, timer] = [null, new Ends([]), new Ends([]), 0, 0];

  function reset() {
    [run, ends, others, written] = [state.run, new Ends(state.rounds), new Ends(state.baseline), 0];
    text.replaceChildren();
    const method = state.setup?.method;
    setText(first.querySelector(".name"), METHODS[method] ?? "");
    first.style.setProperty("--own", `var(--${method})`);
  }

  function fill(lane, tokens, most) {
    lane.querySelector("i").style.transform = `scaleX(${most > 0 ? tokens / most : 0})`;
    setText(lane.querySelector(".count"), String(tokens));
  }

  function write(rounds) {
    if (rounds === written) return; // the browser need not lay out anything
    if (rounds < written) {
      text.replaceChildren();
      written = 0;
    }
    for (; written < rounds; written++)
      appendText(text, written === 0 ? state.baseline[0].text.trimStart() : state.baseline[written].text);
    onceDrawn(() => {
      text.scrollTop = text.scrollHeight;
    });
  }

  const draw = onFrame(() => {
    if (state.run !== run || others.rounds !== state.baseline) reset();
    box.hidden = state.baseline.length === 0;
    if (box.hidden || state.rounds.length === 0) return;
    [ends, others].map((list) => list.grow());
    const now = shownSeconds(ends);
    const there = others.after(now);
    const most = Math.max(ends.tokens.at(-1), others.tokens.at(-1));
    fill(first, ends.tokens[ends.after(now)], most);
    fill(second, others.tokens[there], most);
    write(there);
    const slowed = isPlaying() ? `, shown ${Math.max(1, Math.round(slowness()))} times slower` : "";
    setText(box.querySelector(".passed"), `${seconds(now)} s${slowed}`);
    setText(box.querySelector(".ratio"), ratio(ends, others));
    clearTimeout(timer);
    if (isPlaying()) timer = setTimeout(draw, TICK);
  });
  subscribe(draw);
  onPlayer(draw);
}
