// A round as a list of decisions in order. A decision is the smallest step of time on the page.

/** @import { Decision, Node, Round } from "../types.d.ts" */

const cache = new WeakMap();

// All decisions of a round, in order: { kind, step, trial }. kind: "draft" (the tree is drafted and nothing
// is checked yet), "rejected" (a test of GSD fails), or the kind of the emitted token. step: the position in
// the round. trial: the number of GSD's test at this position, or null.
/** @param {Round} round @param {string} method @returns {Decision[]} */
export function decisions(round, method) {
  if (!cache.has(round)) cache.set(round, list(round, method));
  return cache.get(round);
}

/** @param {Round} round @param {string} method @returns {Decision[]} */
function list(round, method) {
  /** @type {Decision[]} */
  const all = round.nodes.length > 0 ? [{ kind: "draft", step: 0, trial: null }] : [];
  round.tokens.forEach((token, step) => {
    const trials = method === "gsd" ? (round.steps[step]?.trials ?? []) : [];
    trials.forEach(({ accepted }, trial) => {
      if (!accepted) all.push({ kind: "rejected", step, trial });
    });
    const accepting = trials.findIndex(({ accepted }) => accepted);
    all.push({ kind: token.kind, step, trial: accepting < 0 ? null : accepting });
  });
  return all;
}

// The index of the decision that emits the token at this position of the round.
/** @param {Decision[]} all @param {number} step */
export function emission(all, step) {
  return all.findLastIndex((decision) => decision.step === step && !["draft", "rejected"].includes(decision.kind));
}

// Whether a drafted node was found to be wrong: it failed its own test, or no sibling of it was accepted. The
// record marks every sibling of an accepted token as rejected, even one that was never tested.
/** @param {Node} node @param {Round} round */
export function isOut(node, round) {
  if (node.status !== "rejected") return false;
  const step = node.path.length - 1;
  if (round.tokens[step]?.kind !== "accepted") return true;
  const key = node.path.join();
  return round.steps.some(({ trials }) => trials.some(({ path, accepted }) => !accepted && path.join() === key));
}

// The status of a node as it is known at a decision: unvisited until its position is verified.
/** @param {Node} node @param {Decision} decision @param {Round} round @returns {import("../types.d.ts").Status} */
export function statusAt(node, decision, round) {
  const step = node.path.length - 1;
  if (step > decision.step || decision.kind === "draft") return "unvisited";
  if (step === decision.step && decision.kind === "rejected" && node.path.at(-1) > decision.trial) return "unvisited";
  return node.status === "rejected" && !isOut(node, round) ? "unvisited" : node.status;
}

// The index of the decision at which a rejected node turns out wrong.
/** @param {Decision[]} all @param {Node} node */
export function rejection(all, node) {
  const step = node.path.length - 1;
  const failed = all.findIndex((d) => d.kind === "rejected" && d.step === step && d.trial === node.path.at(-1));
  return failed < 0 ? emission(all, step) : failed;
}

/** @param {Decision | undefined} decision */
export const isEmitted = (decision) => !["draft", "rejected"].includes(decision?.kind);
