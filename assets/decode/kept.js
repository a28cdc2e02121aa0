// The visitor's last own run, stored across a reload of the page, only in this browser tab.

import { keep, keptText, keptValue } from "../shared/memory.js";
import { isExpecting, state, subscribe } from "../shared/store.js";

const TAB = "sessionStorage";
const NAME = "specdec.run";
const BEGUN = "specdec.begun"; // this entry exists while a run is in progress
const MOST = 2_000_000; // most characters; browsers give a site five to ten million

const INTERRUPTED = "Your run ended when the page was loaded again.";
const TOO_LONG =
  "Your last run was too long to be kept when the page was loaded again. Save a run to a file to keep it at any length.";
let message = "";

// Why the visitor's last run is not shown after a reload, in words; empty if it is shown or there was none.
export const lostRun = () => message;

// The stored run after a reload. null if there is none, it was too long, or the page was opened anew.
export function keptRun() {
  const [navigation] = performance.getEntriesByType("navigation");
  if (/** @type {PerformanceNavigationTiming} */ (navigation)?.type !== "reload") return null;
  const run = keptValue(NAME, TAB);
  message = keptText(BEGUN, TAB) !== null ? INTERRUPTED : run === false ? TOO_LONG : "";
  return run || null;
}

function keepRun() {
  const { setup, rounds, prefillSeconds, baseline, timings } = state;
  const text = JSON.stringify({ setup, rounds, prefillSeconds, baseline, timings });
  keep(NAME, text.length <= MOST ? text : "false", TAB);
}

const mark = (isUnfinished) => keep(BEGUN, isUnfinished ? "" : null, TAB);

export function mountKept() {
  mark(false); // a reload is reported only once
  let last = state.phase;
  subscribe(() => {
    const hasEnded = ["done", "stopped"].includes(state.phase) && !state.recorded && state.rounds.length > 0;
    if (hasEnded && state.phase !== last) keepRun();
    if (state.phase !== last) mark(isExpecting());
    last = state.phase;
  });
}
