// The visitor's last own run, stored across a reload of the page, only in this browser tab.

import { keep, kept, keptValue } from "../shared/memory.js";
import { isExpecting, state, subscribe } from "../shared/store.js";

const TAB = "sessionStorage";
const NAME = "specdec.run";
const BEGUN = "specdec.begun"; // this entry exists while a run is in progress
const MOST = 2_000_000; // most characters; browsers give a site five to ten million

export const INTERRUPTED = "Your run ended when the page was loaded again.";
let interrupted = false;

// Whether this page was opened by a reload that ended a run.
export const wasInterrupted = () => interrupted;

// The stored run after a reload. null if there is none or the page was opened anew.
export function keptRun() {
  const [navigation] = performance.getEntriesByType("navigation");
  if (/** @type {PerformanceNavigationTiming} */ (navigation)?.type !== "reload") return null;
  interrupted = kept(BEGUN, TAB) !== null;
  return keptValue(NAME, TAB);
}

function keepRun() {
  const { setup, rounds, prefillSeconds, baseline, timings } = state;
  const text = JSON.stringify({ setup, rounds, prefillSeconds, baseline, timings });
  keep(NAME, text.length <= MOST ? text : null, TAB);
}

const mark = (isUnfinished) => keep(BEGUN, isUnfinished ? "" : null, TAB);

export function mountKept() {
  mark(false); // a reload is reported only once
  let last = state.phase;
  subscribe(() => {
    const ended = ["done", "stopped"].includes(state.phase) && !state.recorded && state.rounds.length > 0;
    if (ended && state.phase !== last) keepRun();
    if (state.phase !== last) mark(isExpecting());
    last = state.phase;
  });
}
