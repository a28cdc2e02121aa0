// Two timelines with a common axis, for plain decoding and for this run. A block is a call of the large model; its
// width is the time of the call and of the guesses before it, and its ticks are the tokens of the call.

import { INVARIANT } from "../shared/catalogue.js";
import { Drawing, setAll, svg } from "../shared/drawing.js";
import { appendText, count } from "../shared/labels.js";
import { durations, equalTokens, isMeasured, missingWords, resultWords, speed, speedWords } from "../shared/speed.js";
import { isExpecting, lastDecision, select, state, subscribe } from "../shared/store.js";
import { decodingSeconds, sum, tokensIn } from "../shared/totals.js";
import { make, onceDrawn, onFrame, placeIn, setText } from "../shared/view.js";
import { Fences } from "./code.js";
import { isPlaying, onPlayer, secondsPlayed, slowness } from "./player.js";

const HEIGHT = 20; // height of a timeline in pixels
const APART = 4.5; // least pixels between two ticks beside each other; in a narrow block the ticks stand in rows
const TALL = 8; // most pixels of a tick
const GAP = 1; // pixels between blocks that are wide enough
const AHEAD = 1.5; // the axis is this much longer than the run, until the length of plain decoding is known

// The ticks of a block, one for each token, in pixels of the block.
export function ticksOf(tokens, width) {
  const columns = Math.min(tokens, Math.max(1, Math.floor(width / APART)));
  const rows = Math.ceil(tokens / columns);
  const height = Math.min(TALL, (0.6 * HEIGHT) / rows);
  return Array.from({ length: tokens }, (_, i) => ({
    x: (width * ((i % columns) + 0.5)) / columns,
    y: (HEIGHT * (Math.floor(i / columns) + 0.5)) / rows - height / 2,
    height,
  }));
}

// One timeline. All blocks are drawn once, and a mask reveals those that are over at the present time.
class Lane {
  blocks = []; // { x, end, width, guess, tokens } of each block, in pixels; x and width are whole numbers

  constructor(element, name) {
    this.track = element.querySelector(".track");
    this.count = element.querySelector(".count");
    this.svg = svg("svg", { class: "calls", "aria-hidden": "true", height: HEIGHT });
    const [blocks, ticks] = ["blocks", "ticks"].map((shape) => svg("clipPath", { id: `${name}-${shape}` }));
    this.masks = [blocks, ticks].map((mask) => mask.appendChild(svg("rect", { height: HEIGHT })));
    const masked = (shape, ...paths) => svg("g", { "clip-path": `url(#${name}-${shape})` }, ...paths);
    const path = (name) => svg("path", { class: name });
    this.guess = path("guess");
    this.call = path("call");
    this.tick = path("tick");
    this.here = path("here");
    this.svg.append(blocks, ticks, masked("blocks", this.call, this.guess), masked("ticks", this.tick), this.here);
    this.track.append(this.svg);
  }

  // Computes the blocks from, for each block, its seconds, the small model's part of these, and its number of tokens.
  layout({ seconds, guesses, tokens }, scale) {
    const dot = 1 / devicePixelRatio;
    const snap = (pixels) => Math.round(pixels / dot) * dot; // blurred edges of blocks would merge
    let time = 0;
    this.blocks = seconds.map((length, i) => {
      const x = snap(time * scale);
      const end = (time += length) * scale;
      return { x, end, width: snap(end) - x, guess: guesses[i] * scale, tokens: tokens[i] };
    });
    const gap = (width) => (width > 4 ? GAP : width > 2 ? dot : 0);
    const tick = (start, { x, y, height }) => `M${(start + x).toFixed(1)} ${y.toFixed(1)}v${height.toFixed(1)}`;
    const ticks = ({ x, width, tokens }) => ticksOf(tokens, width).map((each) => tick(x, each));
    setAll(this.call, { d: this.blocks.map(({ x, width }) => box(x, width - gap(width))).join("") });
    setAll(this.guess, { d: this.blocks.map(({ x, guess }) => (guess > 0 ? box(x, guess) : "")).join("") });
    setAll(this.tick, { d: this.blocks.flatMap(ticks).join("") });
  }

  // Shows the blocks up to the pixel `end`. index: the block of the selected round, or -1.
  show(end, index) {
    const { blocks } = this;
    const next = blocks.findIndex((block) => block.end > end + 1e-6);
    const number = next < 0 ? blocks.length : next;
    const last = blocks[number - 1];
    const covered = last ? last.x + last.width : 0;
    setAll(this.masks[0], { width: Math.max(covered, end) });
    setAll(this.masks[1], { width: covered });
    const marked = blocks[index];
    setAll(this.here, { d: marked ? box(marked.x - 1, marked.width + 1) : "" });
    setText(this.count, blocks.length > 0 ? count(number, "call") : "");
  }
}

function box(x, width) {
  const length = Math.max(width, 0.3).toFixed(2);
  return `M${x.toFixed(2)} 0h${length}v${HEIGHT}h-${length}z`;
}

// The run's blocks. Their times are measured in several repeats, the share of guessing in them once.
function ofRun(seconds) {
  const part = (round) => round.seconds.draft / Math.max(decodingSeconds(round), 1e-12);
  return {
    seconds,
    guesses: state.rounds.map((round, i) => seconds[i] * part(round)),
    tokens: state.rounds.map((round) => round.tokens.length),
  };
}

// One sentence that compares the timelines: the speed of the run, and the tokens and the time of a call.
export function account() {
  const { rounds, phase, setup } = state;
  if (setup.method === "ar") return "Plain decoding: one slow call for each token.";
  const gain = tokensIn(rounds) / rounds.length;
  const each = `a call with guesses yields ${gain.toFixed(2)} tokens`;
  const sentence = `A${each.slice(1)} (words or parts)`;
  if (isPlaying() || ["choosing", "running"].includes(phase)) return "";
  if (phase === "baseline") return `${sentence}. This run and plain decoding are now timed in turns …`;
  if (!isMeasured(state)) return `${sentence}. ${missingWords(state)}`;
  const result = speed(state);
  if (result === null) return `${sentence}. The speed is not known: there were too few undisturbed measurements.`;
  if (result.isBusy) return `${sentence}. The speed is not known: this machine is too busy to measure it.`;
  const longer = gain / result.times;
  return `${INVARIANT.includes(setup.method) ? speedWords(result) : resultWords(state, result)}: ${each} and takes ${longer.toFixed(1)} times as long.`;
}

// Shows how many tokens of the run and of plain decoding are equal, for methods that promise the same text.
function drawVerdict(chip) {
  const { rounds, baseline, phase, setup } = state;
  const promised = INVARIANT.includes(setup.method) && setup.method !== "ar";
  const [run, plain] = [rounds, baseline].map((list) => list.flatMap(({ tokens }) => tokens));
  const isOver = plain.length >= run.length || baseline.at(-1)?.finish !== null;
  chip.hidden = !promised || secondsPlayed() !== null || baseline.length === 0 || !isOver || phase === "waiting";
  const equal = equalTokens(state);
  setText(chip, `${equal} of ${run.length} tokens equal${equal === run.length ? " ✓" : ""}`);
}

class LanesView {
  baseline = null; // the rounds of plain decoding whose text has been written

  constructor(element) {
    this.find = (selector) => element.querySelector(selector);
    this.element = element;
    const lane = (name) => new Lane(this.find(`.lane.${name}`), name);
    this.lanes = { plain: lane("plain"), with: lane("with") };
    this.text = this.find(".plain-text");
    this.story = this.find(".story");
    this.tokens = this.find(".story .tokens");
    this.written = 0;
    this.fences = new Fences();
    this.drawing = new Drawing(this.lanes.plain.track, (width) => this.draw(width));
  }

  draw(width) {
    const { rounds, baseline, setup } = state;
    this.element.classList.toggle("empty", rounds.length === 0);
    if (rounds.length === 0) return this.write(0);
    const seconds = durations(state);
    const scale = this.layout(seconds, width);
    const now = Math.min(moment(seconds.run), width / scale);
    const index = secondsPlayed() === null ? state.selected.round : -1;
    this.lanes.plain.show(now * scale, setup.method === "ar" ? index : -1);
    this.lanes.with.show(now * scale, index);
    let number = 0;
    for (let time = 0; number < baseline.length; number++) if ((time += seconds.plain[number]) > now + 1e-9) break;
    this.write(number);
    const pace = slowness() > 1.01 ? `shown ${Math.max(2, Math.round(slowness()))} times slower` : "in real time";
    const slowed = `${now.toFixed(2)} s, ${pace}`;
    setText(this.find(".account .passed"), secondsPlayed() === null ? "" : slowed);
    setText(this.find(".account .sum"), account());
    drawVerdict(this.find(".account .equal"));
    if (secondsPlayed() === null) onceDrawn(() => this.align());
  }

  // Sets the pixels per second. The blocks are laid out again when they or the scale change.
  layout(seconds, width) {
    const { baseline, recorded, setup } = state;
    const isPlain = setup.method === "ar";
    const isOpen = !recorded && setup.baseline && isExpecting();
    const [own, alone] = [seconds.run, seconds.plain].map(sum);
    const scale = (width - 2) / Math.max(own * (isOpen && !isPlain ? AHEAD : 1), alone, 1e-9);
    if (this.laid?.seconds === seconds && this.laid.scale === scale) return scale;
    this.laid = { seconds, scale };
    const plain = { seconds: seconds.plain, guesses: baseline.map(() => 0), tokens: baseline.map(() => 1) };
    this.lanes.plain.layout(isPlain ? ofRun(seconds.run) : plain, scale);
    this.lanes.with.layout(isPlain ? { seconds: [], guesses: [], tokens: [] } : ofRun(seconds.run), scale);
    return scale;
  }

  // Writes the text of plain decoding so far.
  write(rounds) {
    if (this.baseline !== state.baseline || rounds < this.written) {
      this.text.replaceChildren();
      this.fences = new Fences();
      Object.assign(this, { baseline: state.baseline, written: 0 });
    }
    if (rounds === this.written) return; // the text is unchanged, so the browser need not lay it out again
    for (; this.written < rounds; this.written++) {
      const { text } = state.baseline[this.written];
      const part = make("span", this.fences.next(text) ? "code" : "");
      appendText(part, this.written === 0 ? text.trimStart() : text);
      this.text.append(part);
    }
    if (isPlaying()) onceDrawn(() => void (this.text.scrollTop = this.text.scrollHeight));
  }

  // Scrolls both texts together, by whole lines. Only the run's text has the question above it.
  align() {
    const { text, story } = this;
    const line = Number.parseFloat(getComputedStyle(text).lineHeight);
    const question = Math.floor((this.tokens.offsetTop - story.offsetTop) / line) * line;
    const room = story.scrollHeight - story.clientHeight - question;
    const share = Math.max(0, story.scrollTop - question) / Math.max(1, room);
    text.scrollTop = Math.round((share * (text.scrollHeight - text.clientHeight)) / line) * line;
  }
}

// The measured time up to the selected moment. If nothing is hidden, it is the time of the whole run.
function moment(seconds) {
  if (secondsPlayed() !== null) return secondsPlayed();
  if (!state.veiled) return Infinity;
  const { round } = state.selected;
  return sum(seconds.slice(0, round + Number(state.decision === lastDecision(round))));
}

export function mountLanes(element) {
  const view = new LanesView(element);
  const update = onFrame(() => view.drawing.draw());
  subscribe(update);
  onPlayer(update);
  const { track } = view.lanes.with;
  track.addEventListener("click", (event) => {
    const place = placeIn(track, event).x;
    const round = view.lanes.with.blocks?.findIndex(({ x, width }) => place >= x && place < x + width) ?? -1;
    if (round >= 0) select(round);
  });
  view.story.addEventListener("scroll", () => secondsPlayed() === null && view.align());
}
