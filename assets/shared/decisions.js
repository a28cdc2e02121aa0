// A round as a list of decisions in order. A decision is the smallest step of time on the page.

/** @import { Decision, Node, Round } from "../types.d.ts" */

const known = new WeakMap();

// The kind of a decision: draft (the tree is drafted, nothing is checked yet), rejected (one of GSD's tests
// fails), or the kind of an emitted token. `step` is the position of the decision; `trial` is the number of
// GSD's test, or null.
/**
 * @param {Round} round
 * @param {string} method
 * @returns {Decision[]}
 */
export function decisions(round, method) {
  if (!known.has(round)) known.set(round, list(round, method));
  return known.get(round);
}

/**
 * @param {Round} round
 * @param {string} method
 * @returns {Decision[]}
 */
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

// The index of the decision that emits the token of a step.
/**
 * @param {Decision[]} all
 * @param {number} step
 */
export function emission(all, step) {
  return all.findLastIndex((decision) => decision.step === step && !["draft", "rejected"].includes(decision.kind));
}

// Whether a node has turned out wrong: it failed its own test, or none of its siblings was right. The record
// calls every sibling of an accepted token rejected, even a sibling that was never tested.
/**
 * @param {Node} node
 * @param {Round} round
 */
export function isOut(node, round) {
  if (node.status !== "rejected") return false;
  const step = node.path.length - 1;
  if (round.tokens[step]?.kind !== "accepted") return true;
  const key = node.path.join();
  return round.steps.some(({ trials }) => trials.some(({ path, accepted }) => !accepted && path.join() === key));
}

// The known status of a drafted node at a decision. It is unvisited until its parent's position is verified.
/**
 * @param {Node} node
 * @param {Decision} decision
 * @param {Round} round
 * @returns {import("../types.d.ts").Status}
 */
export function statusAt(node, decision, round) {
  const step = node.path.length - 1;
  if (step > decision.step || decision.kind === "draft") return "unvisited";
  if (step === decision.step && decision.kind === "rejected" && node.path.at(-1) > decision.trial) return "unvisited";
  return node.status === "rejected" && !isOut(node, round) ? "unvisited" : node.status;
}

// The index of the decision at which a rejected node turns out wrong.
/**
 * @param {Decision[]} all
 * @param {Node} node
 */
export function rejection(all, node) {
  const step = node.path.length - 1;
  const failed = all.findIndex((d) => d.kind === "rejected" && d.step === step && d.trial === node.path.at(-1));
  return failed < 0 ? emission(all, step) : failed;
}

/** @param {Decision | undefined} decision */
export const isEmitted = (decision) => !["draft", "rejected"].includes(decision?.kind);
