// The visitor's last own run, stored across a reload of the page, only in this browser tab.

import { isExpecting, state, subscribe } from "../shared/store.js";

const NAME = "specdec.run";
const BEGUN = "specdec.begun"; // this entry exists while a run is in progress
const MOST = 2_000_000; // most characters; browsers give a site five to ten million

export const INTERRUPTED = "Your run ended when the page was loaded again.";
let interrupted = false;

// Whether the reload that opened this page ended a run.
export const wasInterrupted = () => interrupted;

// The stored run after a reload. null if there is none or the page was opened anew.
export function keptRun() {
  const [navigation] = performance.getEntriesByType("navigation");
  if (/** @type {PerformanceNavigationTiming} */ (navigation)?.type !== "reload") return null;
  try {
    interrupted = sessionStorage.getItem(BEGUN) !== null;
    return JSON.parse(sessionStorage.getItem(NAME));
  } catch {
    return null; // storage is forbidden, or its content is foreign
  }
}

function keep() {
  const { setup, rounds, prefillSeconds, baseline, timings } = state;
  const text = JSON.stringify({ setup, rounds, prefillSeconds, baseline, timings });
  try {
    if (text.length <= MOST) sessionStorage.setItem(NAME, text);
    else sessionStorage.removeItem(NAME);
  } catch {
    // the run is lost when the page is closed
  }
}

function mark(isUnfinished) {
  try {
    if (isUnfinished) sessionStorage.setItem(BEGUN, "");
    else sessionStorage.removeItem(BEGUN);
  } catch {
    // storage is forbidden, so after a reload the page says nothing
  }
}

export function mountKept() {
  mark(false); // a reload is reported only once
  let last = state.phase;
  subscribe(() => {
    const ended = ["done", "stopped"].includes(state.phase) && !state.recorded && state.rounds.length > 0;
    if (ended && state.phase !== last) keep();
    if (state.phase !== last) mark(isExpecting());
    last = state.phase;
  });
}
