// The race for one position of the text: each candidate token has a bar as long as its arrival time, and the
// shortest bar wins. For methods that decide without a race, the panel shows their tests instead.

import { isEmitted } from "../shared/decisions.js";
import { Drawing, hatching, mountSwap, raceEnd, SHAPES, setAll, svg } from "../shared/drawing.js";
import { digits, quoted, shortened, visible } from "../shared/labels.js";
import { litNow, select, selectedDecision, selectedRound, state } from "../shared/store.js";
import { fillRows, makeButton, setText } from "../shared/view.js";
import { mountLight, mountMarks, mountSelected, ofNode, ofToken } from "./link.js";
import { run, settle, timely } from "./motion.js";
import { children, nameOf, numbers, raced, sentence, tested } from "./sentences.js";
import { mountWalk } from "./walk.js";

const LANES = 4; // most bars; further candidates are counted
const PITCH = 28; // least pixels for a bar
const FAR = 64; // most pixels for a bar
const BAR = 10;
const MARK = 7; // radius of a winner's mark
const AFTER = 72; // pixels after the longest bar, for its time
const STRIP = 16; // height of a test's strip
const TALL = 44; // least pixels for a strip, with its number above
const LEFT = 18; // pixels for the number of tests that are not shown
const PER_CHARACTER = 8.4;
const PER_BOLD = 10.8; // characters of the winner's name
const BESIDE = 22; // pixels around a name

// The candidates to show: the winners of both races, the token that was written, and then the first arrivals.
// Tokens that arrive in neither race are left out. Before the large model has decided, the candidates are in
// the draft's order, which does not reveal the result.
export function leading(step, decided, most = LANES) {
  const must = new Set(decided ? [step.winner_p, step.winner_q, step.token_id] : [step.winner_q]);
  const time = ({ arrival_p, arrival_q }) => (decided ? arrival_p : arrival_q) ?? Infinity;
  const running = step.leading
    .filter((row) => must.has(row.token_id) || row.arrival_p !== null || row.arrival_q !== null)
    .sort((a, b) => time(a) - time(b))
    .map((row, order) => ({ ...row, order }));
  const first = running.toSorted(
    (a, b) => Number(must.has(b.token_id)) - Number(must.has(a.token_id)) || a.order - b.order,
  );
  return { rows: first.slice(0, most).sort((a, b) => a.order - b.order), left: Math.max(0, running.length - most) };
}

function laneElement() {
  return svg(
    "g",
    { class: "row" },
    svg("rect", { class: "behind" }),
    svg("text", { class: "name", "text-anchor": "end", "dominant-baseline": "central" }),
    ...["draft", "target"].flatMap((model) => [
      svg("rect", { class: `bar ${model}`, height: BAR }),
      svg("path", { class: `runner ${model}` }),
      svg("text", { class: "time", "dominant-baseline": "central" }),
    ]),
  );
}

// Draws a bar from the start of the race to the candidate's arrival. The winner's bar ends with a mark, and one that is
// cut off with an arrow after the arrival time. A candidate that never arrives has no bar.
function fillRunner([bar, mark, time], arrival, { at, y, first, shape, shown }) {
  const isShown = shown && arrival !== null;
  const isCut = isShown && arrival > at.end;
  const x = isShown ? at(Math.min(arrival, at.end)) : at(0);
  setAll(bar, { x: at(0), y: y - BAR / 2, width: Math.max(1, x - at(0)), display: isShown ? "inline" : "none" });
  const won = isShown && arrival <= first;
  setAll(mark, { d: won ? shape(MARK) : "", transform: `translate(${x} ${y})` });
  mark.classList.toggle("won", won);
  setAll(time, { x: x + MARK + 6, y });
  setText(time, isShown ? `${digits(arrival)}${isCut ? " ›" : ""}` : "");
}

function stripElement() {
  return svg(
    "g",
    { class: "row strip" },
    svg("text", { class: "name", "text-anchor": "end", "dominant-baseline": "central" }),
    svg("rect", { class: "whole", height: STRIP, rx: 2 }),
    svg("rect", { class: "bar draft", height: STRIP, rx: 2 }),
    svg("path", { class: "needle" }),
    svg("text", { class: "time needle-name", "text-anchor": "middle" }),
    svg("text", { class: "time", "dominant-baseline": "central" }),
  );
}

class RaceView {
  relight;

  constructor(element) {
    this.plot = element.querySelector(".figure");
    this.svg = svg("svg", { class: "drawing", "aria-hidden": "true" });
    this.finish = svg("line", { class: "finish" });
    this.rows = svg("g");
    this.left = svg("text", { class: "left-over" });
    this.svg.append(hatching("hatching"), this.finish, this.rows, this.left);
    this.plot.append(this.svg);
    this.meaning = new WeakMap();
    this.drawing = new Drawing(this.plot, (width, height) => this.draw(width, height));
  }

  draw(width, height) {
    const round = selectedRound();
    const decision = selectedDecision();
    const step = round?.steps[decision.step];
    const isRace = !step || raced(state.setup.method);
    if (this.isRace !== isRace) this.rows.replaceChildren();
    this.isRace = isRace;
    setAll(this.svg, { width, height });
    if (isRace) this.drawRace(step, isEmitted(decision), width, height);
    else this.drawTests(round, step, decision, width, height);
    this.relight(litNow());
  }

  // Draws the arrivals: the winner on top, and as many bars as fit. A line marks the winner's arrival.
  drawRace(step, decided, width, height) {
    const count = Math.min(LANES, Math.max(2, Math.floor((height - 20) / PITCH)));
    const { rows, left } = step ? leading(step, decided, count) : { rows: [], left: 0 };
    const pitch = Math.min(FAR, (height - 20) / count);
    const names = rows.map((row) => shortened(row.text, width < 500 ? 10 : 16));
    const winner = decided ? step?.winner_p : step?.winner_q;
    const pixels = (name, i) => [...name].length * (rows[i].token_id === winner ? PER_BOLD : PER_CHARACTER);
    const x = BESIDE + Math.max(4 * PER_CHARACTER, ...names.map(pixels));
    const drafted = step ? step.winner_q !== null : false;
    const times = (name) => rows.map((row) => row[name] ?? Infinity);
    const firsts = { q: Math.min(...times("arrival_q")), p: Math.min(...times("arrival_p")) };
    const sides = [...(drafted ? ["q"] : []), ...(decided ? ["p"] : [])];
    const arrivals = sides.flatMap((side) => times(`arrival_${side}`)).filter(Number.isFinite);
    const end = rows.length ? raceEnd(arrivals, 2 * Math.max(...sides.map((side) => firsts[side]))) : 1;
    const xOf = Object.assign((time) => x + (time / end) * (width - AFTER - x), { end });
    const finish = rows.length ? xOf(decided ? firsts.p : firsts.q) : x;
    const display = rows.length ? "inline" : "none";
    setAll(this.finish, { x1: finish, x2: finish, y1: 0, y2: rows.length * pitch, display });
    setAll(this.left, { x, y: rows.length * pitch + 14 });
    setText(this.left, left > 0 ? `and ${left} later ones` : "");
    fillRows(this.rows, rows, laneElement, (group, row, i) => {
      const y = (i + 0.5) * pitch;
      const [behind, name, ...runners] = group.children;
      group.classList.toggle("first", row.token_id === winner);
      setAll(behind, { x: 0, y: y - pitch / 2 + 1, width, height: pitch - 2, rx: 5 });
      setAll(name, { x: x - 10, y });
      setText(name, names[i]);
      const [upper, lower] = drafted && decided ? [y - BAR / 2 - 2, y + BAR / 2 + 2] : [y, y];
      const draft = { at: xOf, y: upper, first: firsts.q, shape: SHAPES.diamond, shown: drafted };
      const target = { at: xOf, y: lower, first: firsts.p, shape: SHAPES.star, shown: decided };
      fillRunner(runners.slice(0, 3), row.arrival_q, draft);
      fillRunner(runners.slice(3), row.arrival_p, target);
      this.meaning.set(group, row);
    });
  }

  // Draws a test as a strip from 0 to 1. The accepting part is filled, and a needle shows the random number u.
  drawTests(round, step, decision, width, height) {
    const room = height - LEFT;
    const trials =
      decision.kind === "draft" ? [] : step.trials.slice(0, decision.trial === null ? Infinity : decision.trial + 1);
    const count = Math.max(1, Math.min(LANES, Math.floor(room / TALL)));
    const last = trials.slice(-count);
    const pitch = Math.min(FAR, room / count);
    const names = last.map((trial) => shortened(tested(round, trial), 12));
    const pixels = (name, i) => [...name].length * (last[i].accepted ? PER_BOLD : PER_CHARACTER);
    const x = BESIDE + Math.max(4 * PER_CHARACTER, ...names.map(pixels));
    const full = Math.max(40, width - x - 92);
    setAll(this.finish, { display: "none" });
    const earlier = trials.length - last.length;
    setAll(this.left, { x, y: last.length * pitch + 14 });
    setText(this.left, earlier > 0 ? `${earlier} tested before these` : "");
    fillRows(this.rows, last, stripElement, (group, trial, i) => {
      const y = (i + 0.6) * pitch;
      const [name, strip, part, needle, u, verdict] = group.children;
      const limit = Math.min(1, trial.ratio ?? 1);
      group.classList.toggle("first", trial.accepted);
      setAll(name, { x: x - 10, y });
      setText(name, names[i]);
      setAll(strip, { x, y: y - STRIP / 2, width: full });
      setAll(part, { x, y: y - STRIP / 2, width: Math.max(1, limit * full) });
      setAll(needle, { d: `M${x + trial.u * full} ${y - STRIP / 2 - 5}v${STRIP + 10}` });
      setAll(u, { x: Math.max(x + 26, Math.min(x + trial.u * full, x + full - 26)), y: y - STRIP / 2 - 8 });
      setText(u, `u = ${digits(trial.u)}`);
      setAll(verdict, { x: x + full + 8, y });
      setText(verdict, trial.accepted ? "accepted" : "rejected");
      const { token_id } = trial;
      this.meaning.set(group, { token_id, text: tested(round, trial), arrival_q: null, arrival_p: null });
    });
  }

  run() {
    run([...this.rows.querySelectorAll("rect.bar")].filter((bar) => bar.getAttribute("display") !== "none"));
  }

  // The race or the tests in words, for screen readers.
  get walked() {
    const decided = isEmitted(selectedDecision());
    return [...this.rows.children].map((group) => {
      const { text, arrival_q, arrival_p } = this.meaning.get(group);
      if (!this.isRace) return `${quoted(text)}: ${group.lastChild.textContent}`;
      const target = decided ? `, in the large model's at ${digits(arrival_p)}` : "";
      return `${quoted(text)} arrives in the small model's race at ${digits(arrival_q)}${target}`;
    });
  }

  // The highlight of a bar: that of the drafted child with its token, or else that of the emitted token.
  what(target) {
    const row = this.meaning.get(target.closest?.(".row"));
    const round = selectedRound();
    if (!row || !round) return null;
    const number = state.selected.step;
    const step = round.steps[number];
    const node = children(round, step).find(({ token_id }) => token_id === row.token_id);
    if (node) return ofNode(round, node);
    if (row.token_id === step.token_id) return ofToken(round, number);
    const path = `${step.path.join(".")}|${row.token_id}`;
    return { round: round.number, path, token_id: row.token_id, index: null, kind: null };
  }
}

const stepButton = () => makeButton("step");

// Draws a button for each position of the round that is decided so far, and a "?" for the current position.
function drawSteps(element, round, decision) {
  const decided = state.veiled ? decision.step + isEmitted(decision) : round.tokens.length;
  const tokens = round.tokens.slice(0, Math.max(decided, decision.step + 1));
  // Buttons of the round before are removed.
  if (element.dataset.round !== String(round.number)) element.replaceChildren();
  element.dataset.round = String(round.number);
  fillRows(element, tokens, stepButton, (button, token, i) => {
    const open = i >= decided;
    setText(button, open ? "?" : visible(nameOf(round, i)));
    button.dataset.step = i;
    button.disabled = open;
    button.setAttribute("aria-pressed", String(i === state.selected.step));
    button.className = `step ${open ? "open" : token.kind}`;
    button.title = `token ${i + 1} of the round${open ? "" : `: ${token.kind}`}`;
  });
}

function tell(find) {
  const [round, decision] = [selectedRound(), selectedDecision()];
  const { method } = state.setup;
  const verdict = find(".verdict");
  // While rounds pass quickly, a screen reader would announce only fragments.
  verdict.setAttribute("aria-live", state.follow ? "off" : "polite");
  setText(verdict, sentence(round, decision, method));
  verdict.title = verdict.textContent; // a narrow panel cuts off the end of the sentence
  setText(find(".numbers"), numbers(round, decision));
  document.body.toggleAttribute("data-tests", !raced(method));
  find(".figure").setAttribute("aria-label", `Arrival times. ${verdict.textContent}`);
}

export function mountRace(element) {
  const find = (selector) => element.querySelector(selector);
  const view = new RaceView(element);
  mountSwap(element);
  mountWalk(element, "The race as a list", () => view.walked);
  const isDrawn = mountSelected(element, (round, decision) => {
    drawSteps(find(".steps"), round, decision);
    tell(find);
    settle();
    view.drawing.draw();
    if (timely(state.selected)) view.run();
  });
  const what = (target) => (isDrawn() ? view.what(target) : null);
  view.relight = mountMarks(() => view.rows.children, what);
  mountLight(view.plot, what, () => [...view.rows.children]);
  const ofStep = (target) => {
    const button = target.closest?.("button.step:not(:disabled)");
    return button && isDrawn() ? ofToken(selectedRound(), Number(button.dataset.step)) : null;
  };
  mountLight(find(".steps"), ofStep);
  mountMarks(() => find(".steps").children, ofStep);
  find(".steps").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) select(state.selected.round, Number(button.dataset.step));
  });
}
