// The state of the comparison in words, and its numbers as rows of a table.

import { place } from "../shared/waiting.js";
import { compared, judged, milliseconds } from "./column.js";
import { efficiency } from "./diff.js";
import { isActive, laneOf, REFERENCE, reference, state } from "./state.js";

export const HEAD = [
  "column",
  "draft",
  "topology",
  "tokens",
  "calls of the large model",
  "tokens per call",
  "seconds, all rounds",
  "ms per token, median round",
  "relative speed",
  "text",
];

const title = (view, i) => `Column ${i + 1}, ${view.controls.method}`;
const length = (lane) => `${lane.tokens.length} of ${state.shared.length ?? "?"} tokens`;

function running(views) {
  const [id, lane] = [...state.lanes].find(([, { phase }]) => ["running", "choosing"].includes(phase)) ?? [];
  if (!lane) return "Running …";
  const i = views.findIndex(({ column }) => column.id === id); // -1 if the column was removed meanwhile
  const name = id === REFERENCE ? "Plain decoding" : i < 0 ? "A column" : title(views[i], i);
  return lane.phase === "choosing" ? `${name}: measuring acceptance to choose the tree …` : `${name}: ${length(lane)}`;
}

const STATUS = {
  idle: () => "Ready: press Run.",
  recorded: (_, isOther) =>
    isOther
      ? "These columns are a recording of another pair. Press Run to decode the prompt above."
      : "Press Run to decode this now, or change a column.",
  waiting: () => (state.place ? `Waiting for the model: ${place(state.place)}.` : "Waiting for the model …"),
  running,
  done: () => `Done, seed ${state.setup.seed}. If you change draft, topology or k of a column, the column runs again.`,
  stopped: () => "Stopped. Press Run to compare again.",
  error: () => "",
};

// A sentence about the state. isOther: whether Run would use other models than those of the shown texts.
export const status = (views, isOther) => STATUS[state.phase](views, isOther);

// The text for screen readers: the start and the end of a run, not every token.
export function summary(views) {
  if (isActive()) return state.phase === "waiting" ? "Waiting for the model …" : "Running …";
  if (state.phase !== "done") return "";
  const column = (view, i) => {
    const lane = laneOf(view.column);
    const rate = lane?.totals.rounds ? ` ${efficiency(lane)} tokens per call.` : "";
    return `${title(view, i)}: ${judged(view.column, lane).line}.${rate}`;
  };
  return `Done. ${views.map(column).join(" ")}`;
}

// A sentence with the numbers of autoregressive decoding, which is measured even if no column shows it.
export function beside(views) {
  const lane = reference();
  if (!lane?.totals.rounds || views.some(({ column }) => column.method === "ar")) return "";
  const { tokens, rounds } = lane.totals;
  return `Plain decoding, measured for comparison: ${tokens} tokens in ${rounds} calls of the large model, ${milliseconds(lane)} ms per token.`;
}

export const rows = (views) => views.map(row);

function row(view, i) {
  const { column } = view;
  const lane = laneOf(column);
  const own = column.method === "ar" ? ["none", "none"] : [view.controls.draft, drawnTree(view, lane)];
  return [title(view, i), ...own, ...cells(column, lane), judged(column, lane).line];
}

function drawnTree(view, lane) {
  const { num_draft_tokens: drafted, depth } = lane?.tree ?? {};
  return drafted === undefined
    ? view.column.topology
    : `${view.column.topology}: ${drafted} drafted tokens, depth ${depth}`;
}

function cells(column, lane) {
  const { totals } = lane ?? {};
  if (!totals?.rounds) return Array(6).fill("–");
  const speed = column.method === "ar" ? "1" : compared(lane).filter(Boolean).join(", ");
  const seconds = totals.decoding.toFixed(2);
  return [totals.tokens, totals.rounds, efficiency(lane), seconds, milliseconds(lane), speed].map(String);
}
