// The statistics of a run. Beside each share the page shows what it is a share of.

import { count, percent } from "../shared/labels.js";
import { durations } from "../shared/speed.js";
import { shownRounds, state, subscribe } from "../shared/store.js";
import { blockEfficiency, STAGES, sum, Totals, tokensIn } from "../shared/totals.js";
import { fillRows, make, onFrame, setCells, setText } from "../shared/view.js";
import { drawChoice } from "./choice.js";
import { mountLight, mountMarks } from "./link.js";
import { reachedWords } from "./optimum.js";

const STAGE_NAMES = {
  draft: "draft",
  evaluate: "evaluate (target)",
  verify: "verify",
  rest: "rest (recording for this page)",
};

function drawTiles(find, run) {
  setText(find(".efficiency"), blockEfficiency(run.tokens, run.rounds));
  drawAgainst(find(".against"), run);
  const counts = `${count(run.tokens, "token")} in ${count(run.rounds, "call")} of the large model`;
  setText(find(".efficiency-note"), run.rounds ? counts : "");
  drawSpeed(find, "speed", state.rounds, durations(state).run, "drafting, evaluating, verifying");
  drawSpeed(find, "baseline", state.baseline, durations(state).plain, "plain decoding");
  if (state.baseline.length === 0) setText(find(".baseline-note"), withoutBaseline());
  const { share, note } = reachedWords(run, state.setup);
  setText(find(".optimum"), share);
  setText(find(".optimum-note"), note);
}

// The bar: one token per call of plain decoding, compared with this run's tokens per call.
function drawAgainst(bar, run) {
  const mean = run.rounds ? run.tokens / run.rounds : 0;
  const full = Math.max(4, Math.ceil(mean));
  bar.style.setProperty("--share", mean / full);
  bar.style.setProperty("--one", 1 / full);
  bar.setAttribute("aria-label", `${mean.toFixed(2)} tokens per call; plain decoding has 1`);
}

// The speed of the whole run, from the same times as the timelines above the text.
function drawSpeed(find, name, rounds, seconds, work) {
  const tokens = tokensIn(rounds);
  const total = sum(seconds);
  setText(find(`.${name}`), total > 0 ? (tokens / total).toFixed(1) : "–");
  setText(find(`.${name}-note`), total > 0 ? `${tokens} tokens in ${total.toFixed(2)} s of ${work}` : "");
}

function withoutBaseline() {
  if (!state.setup) return "";
  if (state.recorded) return "not part of this recording";
  if (state.setup.method === "ar") return "this run is plain decoding";
  return state.setup.baseline
    ? "not measured in this run"
    : "not measured, because “Measure plain decoding too” is not ticked in Settings";
}

// Fills a table of shares. A row with a mark counts tokens: while the pointer or the focus is on it, its tokens are
// highlighted too.
function drawShares(body, rows) {
  const create = () => make("tr");
  fillRows(body, rows, create, (row, { mark = null, name, amount, part, total }) => {
    if (mark) row.tabIndex = 0;
    Object.assign(row.dataset, mark);
    setCells(row, [name, amount, percent(part, total)]);
    row.style.setProperty("--share", total ? part / total : 0);
  });
}

function acceptanceRows({ indices }) {
  const known = Array.from(indices, (index) => index ?? { accepted: 0, verified: 0 }).slice(0, 12);
  return known.map(({ accepted: part, verified: total }, index) => {
    return { mark: { index }, name: String(index), amount: `${part} of ${total}`, part, total };
  });
}

const KINDS = ["accepted", "bonus", "correction", "residual", "sampled"];

function sourceRows({ kinds, tokens: total }) {
  return KINDS.filter((kind) => kinds[kind]).map((kind) => {
    const [name, part] = [kind === "accepted" ? "drafted and accepted" : kind, kinds[kind]];
    return { mark: { kind }, name, amount: `${part} of ${total}`, part, total };
  });
}

function secondsRows({ seconds, rounds, total }) {
  const each = (stage) => (rounds ? `${((1000 * seconds[stage]) / rounds).toFixed(1)} ms` : "–");
  return STAGES.map((stage) => ({ name: STAGE_NAMES[stage], amount: each(stage), part: seconds[stage], total }));
}

function meaning(target) {
  const row = target.closest?.("tr[data-index], tr[data-kind]");
  if (!row) return null;
  return row.dataset.kind ? { kind: row.dataset.kind } : { index: Number(row.dataset.index) };
}

const CAPABILITY = {
  tree: "checks a whole tree in one evaluation",
  sequence: "checks sequences only",
  ar: "one token at a time",
};

function words(model) {
  // A model of a recorded run, of which only role and name are known.
  if (!model.dtype) return `${model.role}: ${model.name}`;
  const can = CAPABILITY[model.capability] ?? model.capability;
  const note = model.note ? `; ${model.note}` : "";
  return `${model.role}: ${model.name}, ${model.numbers ?? model.dtype}, ${model.device}, ${can}${note}`;
}

function usedTopology({ setup, rounds }) {
  if (setup?.choice) return [followedTopology(rounds)];
  if (!setup?.num_draft_tokens) return []; // plain decoding, or copies of the text alone
  const name = setup.topology ? `${setup.topology}, ` : "";
  if (setup.topology === "context")
    return [`topology: context, up to ${setup.num_draft_tokens} drafted tokens, another tree in each round`];
  return [`topology: ${name}${setup.num_draft_tokens} drafted tokens, depth ${setup.depth}`];
}

// The trees of `auto`, which change between rounds.
function followedTopology(rounds) {
  const drafted = sum(rounds.map(({ nodes }) => nodes.length));
  if (rounds.length === 0) return "topology: auto";
  if (drafted === 0) return "topology: auto, which found that drafting does not pay here";
  return `topology: auto, ${(drafted / rounds.length).toFixed(1)} drafted tokens per call on average`;
}

// The run's acceptance, with the names of the Python record. docs/api.md compares them with other engines.
function acceptanceLine(run) {
  if (run.drafted === 0) return [];
  const rounded = (value) => (Array.isArray(value) ? value.map(rounded).join(" ") : String(Number(value.toFixed(2))));
  const parts = Object.entries(run.acceptance).map(([name, value]) => `${name} ${rounded(value)}`);
  return [`acceptance: ${parts.join(", ")}`];
}

function drawModels(list, models, run) {
  // The summary of the element that shows the choice of the tree already has this title.
  const topology = state.setup?.choice?.length ? [] : usedTopology(state);
  const lines = [...acceptanceLine(run), ...models.map(words), ...topology];
  fillRows(list, lines, () => make("li"), setText);
}

// A row is highlighted with every token or node that it counts.
const ofRow = (lit, row) => (row.kind ? lit.kind === row.kind : lit.index === row.index && lit.index !== null);

let [lastRun, sums] = [null, new Totals()]; // the run whose rounds are counted, and their totals

// The totals of the rounds that are completely visible.
export function shownTotals() {
  const end = shownRounds();
  if (lastRun !== state.run || end < sums.rounds) [lastRun, sums] = [state.run, new Totals()];
  return sums.addAll(state.rounds, end);
}

export function mountStatistics(element, props) {
  const find = (selector) => element.querySelector(selector);
  const rows = (lit) => (lit ? element.querySelectorAll("tr[data-index], tr[data-kind]") : []);
  mountMarks(rows, meaning, ofRow);
  for (const body of element.querySelectorAll(".acceptance tbody, .sources tbody")) mountLight(body, meaning);
  subscribe(
    onFrame(() => {
      const run = shownTotals();
      drawTiles(find, run);
      drawShares(find(".acceptance tbody"), acceptanceRows(run));
      drawShares(find(".sources tbody"), sourceRows(run));
      drawShares(find(".seconds tbody"), secondsRows(run));
      drawChoice(find(".choice"), state.setup?.choice, usedTopology(state)[0]);
      drawModels(find(".models"), state.setup?.models ?? props.models ?? [], run);
    }),
  );
}
