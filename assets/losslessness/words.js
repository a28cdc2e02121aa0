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
  const { phase, setup, decodes, chi_square } = state;
  if (phase === "waiting")
    return {
      kind: "",
      text: state.place ? `Waiting for other checks: ${place(state.place)}.` : "Waiting for the server …",
    };
  if (phase === "error") return { kind: "", text: "No verdict." };
  if (phase === "stopped" && decodes === 0)
    return { kind: "", text: "Stopped before the first decode. Press “Run the check” to begin again." };
  const fault = setup.fault && faults[setup.fault];
  const so_far = `${fault ? `With the mistake (${fault}), after` : "After"} ${count(decodes)} of ${count(setup.decodes)} decodes: ${result(chi_square)}.`;
  if (phase === "running") return { kind: "", text: `${so_far} The verdict comes at the end.` };
  if (phase === "stopped") return { kind: "", text: `Stopped, so no verdict. ${so_far}` };
  const early =
    decodes < setup.decodes
      ? ` The server was busy, so the check ended at its time limit, after ${count(decodes)} of ${count(setup.decodes)} decodes. The time limit does not depend on the counts, so the verdict is valid.`
      : "";
  const verdict = finished(state, fault, alarm, early);
  return phase === "recorded" ? { ...verdict, text: `${verdict.text} ${RECORDED}` } : verdict;
}

function finished(state, fault, alarm, early) {
  const [numbers, alarmed] = [result(state.chi_square), caught(state, alarm)];
  if (alarmed && fault)
    return {
      kind: "rejected",
      text: `✗ Caught (${fault}): ${numbers}. This decoder does not have the target's distribution.${early}`,
    };
  if (alarmed)
    return {
      kind: "rejected",
      text: `✗ A difference: ${numbers}. A right decoder raises this alarm once in ${count(Math.round(1 / alarm))} checks. Try other seeds. If they show a difference again, the decoder is wrong.${early}`,
    };
  if (fault)
    return {
      kind: "",
      text: `○ Not caught: ${numbers}. The verifier is broken (${fault}), yet ${count(state.decodes)} decodes of this set-up do not show it. A check that finds no error does not prove that there is none.${early}`,
    };
  return {
    kind: "accepted",
    text: `✓ No difference found: ${numbers}. A smaller difference would need more decodes to be seen.${early}`,
  };
}
