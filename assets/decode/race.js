// The race of one position: bars for e/q and e/p, the winners, and in one sentence what was decided.

import { METHODS } from "../shared/catalogue.js";
import { isEmitted } from "../shared/decisions.js";
import { Drawing, fillMarks, mountSwap, SHAPES, setAll, svg } from "../shared/drawing.js";
import { digits, quoted, shortened, visible } from "../shared/labels.js";
import { litNow, select, selectedDecision, selectedRound, state, subscribe } from "../shared/store.js";
import { cells, fillRows, make, onFrame, setCells, setText } from "../shared/view.js";
import { mountLight, mountMarks, ofNode, ofToken } from "./link.js";
import { run, settle, timely } from "./motion.js";
import { children, numbers, raced, sentence, tested } from "./sentences.js";
import { mountWalk } from "./walk.js";

const ROWS = 8;
const PITCH = 36; // pixels that a row needs
const FAR = 52; // and at most has
const BAR = 13;
const MARK = 7; // radius of a winner's mark, which stands behind its bar
const AXIS = 38; // pixels below the last row
const SCALED_TO = 4; // arrivals that the axis has room for
const MOST_AHEAD = 8; // times of the winners at which it ends at the latest
const PER_CHARACTER = 7.6;

// The rows to show: both winners and the decided token always, then the first arrivals; who arrives in neither
// race is left out. Before the target
// has decided they stand in the draft's order, which gives nothing away.
export function leading(step, decided, most = ROWS) {
  const must = new Set(decided ? [step.winner_p, step.winner_q, step.token_id] : [step.winner_q]);
  const time = ({ arrival_p, arrival_q }) => (decided ? arrival_p : arrival_q) ?? Infinity;
  const rows = [...step.leading].sort((a, b) => time(a) - time(b)).map((row, order) => ({ ...row, order }));
  const running = rows.filter((row) => must.has(row.token_id) || row.arrival_p !== null || row.arrival_q !== null);
  const first = running.toSorted(
    (a, b) => Number(must.has(b.token_id)) - Number(must.has(a.token_id)) || a.order - b.order,
  );
  return first.slice(0, most).sort((a, b) => a.order - b.order);
}

// Far arrivals would squeeze the near ones: the axis ends soon after the first few, and never so far that the winners'
// own bars could not be seen; longer bars are cut.
export function axisEnd(rows) {
  const times = (name) => rows.map((row) => row[name] ?? Infinity);
  const [q, p] = [times("arrival_q"), times("arrival_p")];
  const won = Math.max(...[Math.min(...q), Math.min(...p)].filter(Number.isFinite), 1e-9);
  const earlier = rows.map((_, i) => Math.min(q[i], p[i])).sort((a, b) => a - b);
  const near = earlier[Math.min(SCALED_TO, rows.length) - 1];
  return Math.max(1.25 * won, Math.min(1.15 * near, MOST_AHEAD * won));
}

// Three or four round numbers from 0 to the end.
function ticks(end) {
  const rough = end / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const unit = [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= rough);
  return Array.from({ length: Math.floor(end / unit) + 1 }, (_, i) => i * unit);
}

function tickElement() {
  const group = svg("g", { class: "tick" });
  group.append(svg("line", { y1: 0 }), svg("text", { "text-anchor": "middle" }));
  return group;
}

function rowElement() {
  const group = svg("g", { class: "row" });
  const parts = [
    svg("rect", { class: "behind" }),
    svg("text", { class: "name", "text-anchor": "end", "dominant-baseline": "central" }),
    svg("rect", { class: "bar draft", height: BAR }),
    svg("rect", { class: "bar target", height: BAR }),
    svg("text", { class: "time", "dominant-baseline": "central" }),
    svg("text", { class: "time", "dominant-baseline": "central" }),
    svg("path", { class: "winner draft" }),
    svg("path", { class: "winner target" }),
  ];
  group.append(...parts);
  return group;
}

// One bar of a row: cut where it is longer than the axis.
function fillBar([bar, time, mark], value, { x, y, end, scale, won, shape, shown }) {
  const cut = value === null || value > end;
  const width = Math.max(1, Math.min(value ?? end, end) * scale);
  setAll(bar, { x, y: y - BAR / 2, width, display: shown ? "inline" : "none" });
  setAll(mark, { d: shown && won ? shape(MARK) : "", transform: `translate(${x + width + MARK + 4} ${y})` });
  setAll(time, { x: x + width + (won ? 2 * MARK + 9 : 5), y });
  setText(time, !shown ? "" : cut ? "›" : digits(value));
}

class RaceView {
  relight;

  constructor(element) {
    this.plot = element.querySelector(".figure");
    this.svg = svg("svg", { class: "drawing", "aria-hidden": "true" });
    this.ticks = svg("g");
    this.rows = svg("g");
    this.title = svg("text", { class: "axis", "text-anchor": "middle" });
    setText(this.title, "arrival time (shorter is first)");
    this.svg.append(hatching(), this.ticks, this.title, this.rows);
    this.plot.append(this.svg);
    this.meaning = new WeakMap();
    this.drawing = new Drawing(this.plot, (width, height) => this.draw(width, height));
  }

  // As many rows as fit.
  draw(width, height) {
    const count = Math.min(ROWS, Math.max(2, Math.floor((height - AXIS) / PITCH)));
    const pitch = Math.min(FAR, Math.max((height - AXIS) / count, PITCH));
    const bottom = pitch * count;
    const round = selectedRound();
    const decision = selectedDecision();
    const step = round?.steps[decision.step];
    const decided = isEmitted(decision);
    const rows = step ? leading(step, decided, count) : [];
    const length = width < 500 ? 10 : 18;
    const names = rows.map((row) => shortened(row.text, length));
    const left = 16 + PER_CHARACTER * Math.max(4, ...names.map((name) => [...name].length));
    const end = rows.length ? axisEnd(decided ? rows : rows.map((row) => ({ ...row, arrival_p: null }))) : 1;
    const scale = (width - left - 74) / end;
    const raced = step ? step.winner_q !== null : false;
    setAll(this.svg, { width, height: bottom + AXIS });
    setAll(this.title, {
      y: bottom + AXIS - 6,
      x: left + (width - left) / 2,
      display: rows.length ? "inline" : "none",
    });
    fillMarks(this.ticks, rows.length ? ticks(end) : [], tickElement, (group, value) => {
      setAll(group, { transform: `translate(${left + value * scale} 0)` });
      setAll(group.firstChild, { y2: bottom + 4 });
      setAll(group.lastChild, { y: bottom + 18 });
      setText(group.lastChild, digits(value));
    });
    fillMarks(this.rows, rows, rowElement, (group, row, i) => {
      const y = (i + 0.5) * pitch;
      const [behind, name, draftBar, targetBar, draftTime, targetTime, draftMark, targetMark] = group.children;
      setAll(behind, { x: 0, y: y - pitch / 2 + 1, width, height: pitch - 2, rx: 5 });
      setAll(name, { x: left - 8, y });
      setText(name, names[i]);
      const [upper, lower] = raced && decided ? [y - BAR / 2 - 1, y + BAR / 2 + 1] : [y, y];
      fillBar([draftBar, draftTime, draftMark], row.arrival_q, {
        x: left,
        y: upper,
        end,
        scale,
        won: row.token_id === step.winner_q,
        shape: SHAPES.diamond,
        shown: raced,
      });
      fillBar([targetBar, targetTime, targetMark], row.arrival_p, {
        x: left,
        y: lower,
        end,
        scale,
        won: row.token_id === step.winner_p,
        shape: SHAPES.star,
        shown: decided,
      });
      this.meaning.set(group, row);
    });
    this.relight(litNow());
  }

  // The race is run: its bars start at 0 together.
  run() {
    const bars = [...this.rows.querySelectorAll("rect.bar")].filter((bar) => bar.getAttribute("display") !== "none");
    const lengths = bars.map((element) => ({ element, length: Number(element.getAttribute("width")) }));
    run(lengths, Math.min(...lengths.map(({ length }) => length)));
  }

  // The race in words, for who hears it.
  get walked() {
    const decided = isEmitted(selectedDecision());
    return [...this.rows.children].map((group) => {
      const { text, arrival_q, arrival_p } = this.meaning.get(group);
      const target = decided ? `, in the target's at ${digits(arrival_p)}` : "";
      return `${quoted(text)} arrives in the draft's race at ${digits(arrival_q)}${target}`;
    });
  }

  // A bar stands for the drafted child with its token, or for the token that was emitted.
  what(target) {
    const row = this.meaning.get(target.closest?.(".row"));
    const round = selectedRound();
    if (!row || !round) return null;
    const number = state.selected.step;
    const step = round.steps[number];
    const node = children(round, step).find(({ token_id }) => token_id === row.token_id);
    if (node) return ofNode(round, node);
    if (row.token_id === step.token_id) return ofToken(round, number);
    return {
      round: round.number,
      path: `${step.path.join(".")}|${row.token_id}`,
      token_id: row.token_id,
      index: null,
      kind: null,
    };
  }
}

function hatching() {
  const defs = svg("defs");
  const pattern = svg("pattern", {
    id: "hatching",
    width: 5,
    height: 5,
    patternUnits: "userSpaceOnUse",
    patternTransform: "rotate(45)",
  });
  pattern.append(
    svg("rect", { class: "hatch-fill", width: 5, height: 5 }),
    svg("rect", { class: "hatch-line", width: 1.1, height: 5 }),
  );
  defs.append(pattern);
  return defs;
}

const unraced = (method) => (raced(method) ? "" : `the target's race decides nothing in ${METHODS[method]}`);
// Of rules whose tests compare u with the quotient of p and q as they stand.
const QUOTIENT = ["gsd", "specinfer"];

// The tests so far: p, q, the limit that they give, and the uniform number that decided.
function drawTrials(table, round, step, decision) {
  const trials = decision?.kind === "rejected" ? step.trials.slice(0, decision.trial + 1) : (step?.trials ?? []);
  const known = decision?.kind === "draft" ? [] : trials;
  const method = state.setup?.method;
  table.hidden = !method || raced(method);
  if (table.hidden) return;
  const limit = QUOTIENT.includes(method) ? "p / q" : "limit";
  setText(table.querySelector("caption"), `${METHODS[method]}'s tests, in order: accept when u < ${limit}`);
  setText(table.querySelector("thead .limit"), limit);
  fillRows(
    table.querySelector("tbody"),
    known,
    () => cells(6),
    (row, trial) => {
      const passed = trial.accepted ? "accepted" : "rejected";
      const ratio = trial.ratio === null ? "∞" : digits(trial.ratio);
      setCells(row, [visible(tested(round, trial)), digits(trial.p), digits(trial.q), ratio, digits(trial.u), passed]);
    },
  );
}

function stepButton() {
  const button = make("button", "step");
  button.type = "button";
  return button;
}

// The positions decided so far; a "?" for the one in question.
function drawSteps(element, round, decision) {
  const decided = state.veiled ? decision.step + isEmitted(decision) : round.tokens.length;
  const shown = round.tokens.slice(0, Math.max(decided, decision.step + 1));
  if (element.dataset.round !== String(round.number)) element.replaceChildren(); // other tokens: nothing of these moved
  element.dataset.round = String(round.number);
  fillRows(element, shown, stepButton, (button, token, i) => {
    const open = i >= decided;
    setText(button, open ? "?" : visible(token.text));
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
  // While rounds fly by, a screen reader would only stutter.
  verdict.setAttribute("aria-live", state.follow ? "off" : "polite");
  setText(verdict, sentence(round, decision, method));
  setText(find(".numbers"), [numbers(round, decision), unraced(method)].filter(Boolean).join(" · "));
  find(".figure").setAttribute("aria-label", `Arrival times. ${verdict.textContent}`);
}

export function mountRace(element) {
  const find = (selector) => element.querySelector(selector);
  const view = new RaceView(element);
  mountSwap(element);
  mountWalk(element, "The race as a list", () => view.walked);
  const what = (target) => view.what(target);
  view.relight = mountMarks(() => view.rows.children, what);
  mountLight(view.plot, what, () => [...view.rows.children]);
  const ofStep = (target) => {
    const button = target.closest?.("button.step:not(:disabled)");
    return button && selectedRound() ? ofToken(selectedRound(), Number(button.dataset.step)) : null;
  };
  mountLight(find(".steps"), ofStep);
  mountMarks(() => find(".steps").children, ofStep);
  find(".steps").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) select(state.selected.round, Number(button.dataset.step));
  });
  let drawn = null;
  subscribe(
    onFrame(() => {
      if (drawn === state.selected) return;
      drawn = state.selected;
      const [round, decision] = [selectedRound(), selectedDecision()];
      if (!round) return;
      drawSteps(find(".steps"), round, decision);
      drawTrials(find(".trials"), round, round.steps[decision.step], decision);
      tell(find);
      settle();
      view.drawing.draw();
      if (timely(state.selected)) view.run();
    }),
  );
}
