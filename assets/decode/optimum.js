// How much a run accepted of the most that any rule can.

import { percent } from "../shared/labels.js";

const JOINTLY =
  "; traversal verification decides on several positions at once, so single ones may lie above their own optimum";

// reached: the sums of `Totals`. The share of the optimum, and what it is made of.
export function reachedWords({ reached, rounds }, setup) {
  const { positions, accepted, optimum, variance } = reached;
  if (positions > 0 && setup?.topology !== "context")
    return {
      share: percent(accepted, optimum),
      note:
        `accepted at ${accepted} of ${positions} positions with drafts; the best rule would accept at ` +
        `${optimum.toFixed(1)} ± ${(1.96 * Math.sqrt(variance)).toFixed(1)} of them (95%)` +
        (setup?.method === "traversal" ? JOINTLY : ""),
    };
  return { share: "–", note: rounds > 0 ? missing(setup) : "" };
}

function missing(setup) {
  if (setup?.method === "ar") return "nothing is drafted";
  if (setup?.topology === "context") return "not known where the tree grows with the drafts";
  return "not part of this record";
}
