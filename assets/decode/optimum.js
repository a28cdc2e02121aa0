// A run's accepted tokens, as a share of the largest number that any rule could be expected to accept.

import { JOINT, METHODS } from "../shared/catalogue.js";
import { percent } from "../shared/labels.js";

const JOINTLY =
  "decides on several positions at once, so its acceptance at a single position may be above that position's optimum";
const LARGE = "with many drafts or tokens the optimum is computed only at every eighth position, or not at all";

// The share of the optimum, and a note with the counts behind it. reached: the sums of `Totals`.
export function reachedWords({ reached, rounds }, setup) {
  const { positions, accepted, optimum, variance, unknown } = reached;
  if (positions > 0 && setup?.topology !== "context")
    return {
      share: percent(accepted, optimum),
      note:
        `accepted at ${accepted} of ${positions} positions with drafts; the best rule would accept at ` +
        `${optimum.toFixed(1)} ± ${(1.96 * Math.sqrt(variance)).toFixed(1)} of them (95%)` +
        (unknown > 0 ? `; positions left out: ${unknown}, because ${LARGE}` : "") +
        (JOINT.includes(setup?.method) ? `; ${METHODS[setup.method]} ${JOINTLY}` : ""),
    };
  return { share: "–", note: rounds > 0 ? missing(setup, unknown) : "" };
}

function missing(setup, unknown) {
  if (setup?.method === "ar") return "nothing is drafted";
  if (setup?.topology === "context")
    return "not known, because this tree depends on the random numbers that also decide";
  return unknown > 0 ? `not known: ${LARGE}` : "this record does not contain it";
}
