// The race of one position: bars for e/q and e/p, the winners, and in one sentence what was decided.

import { Figure } from "./figure.js";
import { digits, plotlyLabel, quoted, visible } from "./labels.js";
import { select, selectedRound, state, subscribe } from "./store.js";
import { cells, fillRows, make, onFrame, setCells, setText } from "./view.js";

const ROWS = 8;
const HALF = 0.19; // distance of a bar from the middle of its row

// The children that were drafted at the step's node, in order.
export function children(round, step) {
  const parent = step.path.join();
  return round.nodes.filter(({ path }) => path.length === step.path.length + 1 && path.slice(0, -1).join() === parent);
}

// The rows to show: both winners and the decided token always, then the first arrivals under P.
export function leading(step) {
  const must = new Set([step.winner_p, step.winner_q, step.token_id]);
  const rows = step.leading.map((arrival, order) => ({ ...arrival, order }));
  const first = rows.sort((a, b) => must.has(b.token_id) - must.has(a.token_id) || a.order - b.order);
  return first.slice(0, ROWS).sort((a, b) => a.order - b.order);
}

// Far arrivals would squeeze the near ones: the axis ends soon after the winners; longer bars are cut.
function axisEnd(rows) {
  const times = (name) => rows.map((row) => row[name] ?? Infinity);
  const [q, p] = [times("arrival_q"), times("arrival_p")];
  const winners = [Math.min(...q), Math.min(...p)].filter(Number.isFinite);
  const earlier = rows.map((_, i) => Math.min(q[i], p[i])).sort((a, b) => a - b);
  const near = earlier[Math.min(4, rows.length - 1)];
  return Math.max(...[1.25 * near, 1.6 * Math.max(...winners)].filter(Number.isFinite), 1e-9);
}

const BEHIND_MARK = "\u2003\u2003"; // the winner's mark sits at the end of its bar

function fillBars(trace, rows, time, end, winner) {
  const clipped = rows.map((row) => Math.min(time(row) ?? end, end));
  trace.x = clipped;
  trace.y = rows.map((_, i) => i);
  trace.text = rows.map((row) => {
    if (time(row) > end || time(row) === null) return `${digits(time(row))} ›`;
    return (row.token_id === winner ? BEHIND_MARK : "") + digits(time(row));
  });
}

function hover(row, child) {
  const drafted = child >= 0 ? `<br>drafted as child ${child}` : "";
  return `${plotlyLabel(row.text)}${drafted}<br>e = ${digits(row.exponential)}<br>q = ${digits(row.q)}, e / q = ${digits(row.arrival_q)}<br>p = ${digits(row.p)}, e / p = ${digits(row.arrival_p)}`;
}

function markWinner(trace, rows, winner, time, end, offset) {
  const i = rows.findIndex((row) => row.token_id === winner);
  trace.x = i < 0 ? [] : [Math.min(time(rows[i]) ?? end, end)];
  trace.y = i < 0 ? [] : [i + offset];
}

// Puts one verified position into the figure's skeleton.
export function fillRace({ data, layout }, round, step, width) {
  const [draft, target, draftWinner, targetWinner] = data;
  const rows = step ? leading(step) : [];
  const drafted = step ? children(round, step).map((node) => node.token_id) : [];
  const end = rows.length ? axisEnd(rows) : 1;
  const ofDraft = (row) => row.arrival_q;
  const ofTarget = (row) => row.arrival_p;
  const raced = rows.length > 0 && step.winner_q !== null;
  fillBars(draft, raced ? rows : [], ofDraft, end, step?.winner_q);
  fillBars(target, rows, ofTarget, end, step?.winner_p);
  draft.hovertext = target.hovertext = rows.map((row) => hover(row, drafted.indexOf(row.token_id)));
  markWinner(draftWinner, rows, raced ? step.winner_q : null, ofDraft, end, -HALF);
  markWinner(targetWinner, rows, step?.winner_p, ofTarget, end, raced ? HALF : 0);
  const length = width < 500 ? 10 : 18;
  Object.assign(layout.yaxis, {
    tickvals: rows.map((_, i) => i),
    ticktext: rows.map((row) => plotlyLabel(row.text, length)),
  });
  layout.xaxis.range = [0, end * 1.2]; // room for the last label
  layout.xaxis.visible = layout.yaxis.visible = rows.length > 0;
}

const GSD_NOTE = "GSD drafts with the draft's race; the target's race decides nothing here and is shown to compare.";

function trialSentence(round, step) {
  const trial = step.trials.at(-1);
  const node = trial && children(round, step)[step.trials.length - 1];
  if (step.kind === "accepted") {
    const ratio = trial.ratio === null ? "∞" : digits(trial.ratio);
    return `u = ${digits(trial.u)} < p / q = ${ratio}: ${quoted(node.text)} is accepted.`;
  }
  if (step.kind === "bonus") return "Every drafted token of this path was accepted: the target adds one of its own.";
  const tests =
    step.trials.length === 1
      ? `u = ${digits(trial.u)} ≥ p / q = ${digits(trial.ratio)}: ${quoted(node.text)} is rejected`
      : `All ${step.trials.length} tests failed`;
  return `${tests}, and the next token is sampled from the residual.`;
}

function raceSentence(round, step, decided) {
  const drafted = children(round, step);
  const child = drafted.findIndex((node) => node.token_id === step.token_id);
  if (step.kind === "bonus") return `Nothing was drafted here: the target's winner ${decided} is a bonus.`;
  if (step.kind === "correction") {
    const tried = drafted.map((node) => quoted(node.text)).slice(0, 3).join(", ");
    return `The target's race is won by ${decided}, which was not drafted (${tried}): it corrects the draft.`;
  }
  if (step.winner_q === step.winner_p) return `Both races are won by ${decided}: accepted.`;
  return `The target's race is won by ${decided}; the draft had it too, as child index ${child}: accepted.`;
}

// What was decided at a step, and why, in one sentence with its numbers.
export function verdict(round, step, method) {
  const token = round.tokens[round.steps.indexOf(step)];
  const decided = quoted(token.text);
  if (method === "gsd") return trialSentence(round, step);
  if (method === "ar") return `The target's race is won by ${decided}: sampled.`;
  return raceSentence(round, step, decided);
}

function drawTrials(element, round, step) {
  const trials = step?.trials ?? [];
  element.hidden = state.setup?.method !== "gsd";
  const drafted = step ? children(round, step) : [];
  fillRows(element.querySelector("tbody"), trials, () => cells(6), (row, trial, i) => {
    row.className = trial.accepted ? "accepted" : "rejected";
    const ratio = trial.ratio === null ? "∞" : digits(trial.ratio);
    const result = trial.accepted ? "✓ accepted" : "✗ rejected";
    setCells(row, [visible(drafted[i].text), digits(trial.p), digits(trial.q), ratio, digits(trial.u), result]);
  });
}

function stepButton() {
  const button = make("button", "step");
  button.type = "button";
  return button;
}

function drawSteps(element, round) {
  const steps = round?.steps ?? [];
  fillRows(element, steps, stepButton, (button, step, i) => {
    setText(button, visible(round.tokens[i].text));
    button.dataset.step = i;
    button.setAttribute("aria-pressed", String(i === state.selected.step));
    button.className = `step ${step.kind}`;
    button.title = `position ${step.position}: ${step.kind}`;
  });
}

export function mountRace(element, props) {
  const find = (selector) => element.querySelector(selector);
  const [steps, sentence, trials, plot, note] = [".steps", ".verdict", ".trials", ".figure", ".note"].map(find);
  const marks = note.textContent;
  const current = () => selectedRound()?.steps[state.selected.step];
  const figure = new Figure(plot, {
    skeleton: props.figure,
    plotly: props.plotly,
        fill: (skeleton, width) => fillRace(skeleton, selectedRound(), current(), width),
  });
  steps.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) select(state.selected.round, Number(button.dataset.step));
  });
  let drawn = null;
  subscribe(
    onFrame(() => {
      if (drawn === state.selected) return;
      drawn = state.selected;
      const step = current();
      drawSteps(steps, selectedRound());
      drawTrials(trials, selectedRound(), step);
      if (step) {
        setText(sentence, verdict(selectedRound(), step, state.setup.method));
        // While rounds fly by, a screen reader would only stutter.
        sentence.setAttribute("aria-live", state.follow ? "off" : "polite");
        setText(note, state.setup.method === "gsd" ? `${marks} ${GSD_NOTE}` : marks);
        plot.setAttribute("aria-label", `Arrival times. ${sentence.textContent}`);
      }
      figure.draw();
    }),
  );
}
