// Texts about the losslessness check: its verdict and its numbers.

import { pValue } from "../shared/labels.js";
import { place } from "../shared/waiting.js";

export const count = (number) => number.toLocaleString("en");

const SMALLEST = 1e-12; // smaller p-values are written as “below” this number

export const bounded = (p) => (p < SMALLEST ? `< ${pValue(SMALLEST)}` : pValue(p));

export const statistic = (value) => (value >= 1000 ? count(Math.round(value)) : value.toFixed(1));

const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

const result = ([value, freedom, p]) =>
  `χ² = ${statistic(value)} over ${plural(freedom, "degree")} of freedom, p ${p < SMALLEST ? "" : "= "}${bounded(p)}`;

export const caught = ({ chi_square: [, , p] }, alarm) => p < alarm;

const RECORDED = "This is a recorded check. Press “Run the check” for your own.";

// The verdict on a check. kind: which mark it has; text: the sentence.
export function verdict(state, { alarm, faults }) {
  const fault = state.setup?.fault && faults[state.setup.fault];
  if (!["recorded", "done"].includes(state.phase)) return { kind: "", text: unfinished(state, fault) };
  const isCaught = caught(state, alarm);
  const recorded = state.phase === "recorded" ? ` ${RECORDED}` : "";
  const text = finished(state, fault, isCaught, alarm) + early(state) + recorded;
  return { kind: isCaught ? "rejected" : fault ? "" : "accepted", text };
}

function unfinished({ phase, place: waiting, setup, decodes, chi_square }, fault) {
  if (phase === "waiting") return waiting ? `Waiting for other checks: ${place(waiting)}.` : "Waiting for the server …";
  if (phase === "error") return "No verdict.";
  if (phase === "stopped" && decodes === 0)
    return "Stopped before the first decode. Press “Run the check” to begin again.";
  const soFar = `${fault ? `With the mistake (${fault}), after` : "After"} ${count(decodes)} of ${count(setup.decodes)} decodes: ${result(chi_square)}.`;
  return phase === "running" ? `${soFar} The verdict comes at the end.` : `Stopped, so no verdict. ${soFar}`;
}

function finished({ decodes, chi_square }, fault, isCaught, alarm) {
  const numbers = result(chi_square);
  if (isCaught && fault)
    return `✗ Caught (${fault}): ${numbers}. This decoder does not have the target's distribution.`;
  if (isCaught)
    return `✗ A difference: ${numbers}. A right decoder raises this alarm once in ${count(Math.round(1 / alarm))} checks. Try other seeds. If they show a difference again, the decoder is wrong.`;
  return fault
    ? `○ Not caught: ${numbers}. The verifier is broken (${fault}), yet ${count(decodes)} decodes of this set-up do not show it. A check that finds no error does not prove that there is none.`
    : `✓ No difference found: ${numbers}. A smaller difference would need more decodes to be seen.`;
}

// Why a check has fewer decodes than planned.
const early = ({ setup, decodes }) =>
  decodes < setup.decodes
    ? ` The server was busy, so the check ended at its time limit, after ${count(decodes)} of ${count(setup.decodes)} decodes. The time limit does not depend on the counts, so the verdict is valid.`
    : "";
