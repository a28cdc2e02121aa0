// Writes one sentence about each decision of a round, with its reason and its numbers.

/** @import { Decision, Round } from "../types.d.ts" */

import { INVARIANT } from "../shared/catalogue.js";
import { count, digits, quoted } from "../shared/labels.js";

// Most characters of a token's name in a decision's sentence, which must fit on one line of a wide screen.
const LONGEST = 10;
const key = (path) => path.join(".");

// The drafted children of a step's node, in order.
/** @param {Round} round @param {{ path: number[] }} step */
export function children(round, step) {
  const parent = key(step.path);
  return round.nodes.filter(({ path }) => path.length === step.path.length + 1 && key(path.slice(0, -1)) === parent);
}

// The text of a token as the race shows it. It can differ from the text that the token adds, if the token is
// only a part of a character or completes one.
/** @param {Round} round @param {number} step */
export function nameOf(round, step) {
  const { id, text } = round.tokens[step];
  return round.steps[step]?.leading.find(({ token_id }) => token_id === id)?.text || text;
}

const ratio = (trial) => (trial.ratio === null ? "∞" : digits(trial.ratio));

// Whether the target's race decides. Other rules test the drafted tokens.
export const raced = (method) => INVARIANT.includes(method);

// The text of the node that a test checked.
export const tested = (round, trial) => round.nodes.find(({ path }) => key(path) === key(trial.path)).text;

function trialSentence(round, step, number) {
  const trial = step.trials[number];
  const [sign, outcome] = trial.accepted ? ["<", "accepted"] : ["≥", "rejected"];
  const note = number === 0 ? "" : ` (p: residual after ${count(number, "rejection")})`;
  return `${quoted(tested(round, trial), LONGEST)}: u = ${digits(trial.u)} ${sign} p/q = ${ratio(trial)}: ${outcome}${note}.`;
}

const bonus = (token) => `${token} is the large model's bonus: all guesses on this path are accepted.`;

function gsdSentence(round, step, decision) {
  if (decision.trial !== null) return trialSentence(round, step, decision.trial);
  const token = quoted(nameOf(round, decision.step), LONGEST);
  if (step.kind === "bonus") return bonus(token);
  const rejected =
    step.trials.length === 1 ? "the only child is rejected" : `all ${step.trials.length} children rejected`;
  return `${token}: ${rejected}, so it is drawn from the residual.`;
}

// The sentence about a decision of a rule that tests independent draws or whole paths.
function testsSentence(round, step, decision) {
  const token = quoted(nameOf(round, decision.step), LONGEST);
  if (step.kind === "bonus") return bonus(token);
  const failed = step.trials.filter(({ accepted }) => !accepted).length;
  if (step.kind !== "accepted") return `${token}: ${count(failed, "test")} failed, so it is drawn from the residual.`;
  const trial = step.trials.find(({ accepted }) => accepted);
  if (trial?.path.length !== decision.step + 1) return `${token} is on a path that is accepted as a whole.`;
  const note = failed === 0 ? "" : ` after ${count(failed, "test")} failed`;
  return `${token}: u = ${digits(trial.u)} < ${ratio(trial)}: accepted${note}.`;
}

function raceSentence(round, step, decision) {
  const arrival = step.leading.find(({ token_id }) => token_id === step.token_id);
  const first = `${quoted(nameOf(round, decision.step), LONGEST)} wins the large model's race (e/p = ${digits(arrival?.arrival_p)})`;
  if (step.kind === "sampled") return `${first}, so it is the sample.`;
  if (step.kind === "bonus") return `${first}; no guess here: bonus.`;
  if (step.kind === "correction") return `${first}; not guessed: correction.`;
  return `${first}; guessed: accepted.`;
}

/** @param {Round} round @param {Decision} decision @param {string} method @returns {string} */
export function sentence(round, decision, method) {
  const step = round.steps[decision.step];
  if (decision.kind === "draft") return draftSentence(round, method);
  if (!step) return "This run was recorded without its races.";
  if (raced(method)) return raceSentence(round, step, decision);
  return method === "gsd" ? gsdSentence(round, step, decision) : testsSentence(round, step, decision);
}

function draftSentence(round, method) {
  const checked = raced(method) ? "The large model races next." : "No guess is tested yet.";
  return `${count(round.nodes.length, "token")} guessed: the small model's first arrivals. ${checked}`;
}

// The numbers of a decision: the token's probabilities and its random number. The drawing has the arrival times.
/** @param {Round} round @param {Decision} decision @returns {string} */
export function numbers(round, decision) {
  const step = round.steps[decision.step];
  if (!step || decision.kind === "draft") return "";
  if (decision.trial !== null) {
    const { p, q, u } = step.trials[decision.trial];
    return `p = ${digits(p)} (large) · q = ${digits(q)} (small) · u = ${digits(u)} (random)`;
  }
  const entry = step.leading.find(({ token_id }) => token_id === step.token_id);
  if (!entry) return "";
  const small = step.winner_q === null ? "" : ` · q = ${digits(entry.q)} (small)`;
  return `p = ${digits(entry.p)} (large)${small} · e = ${digits(entry.exponential)} (random)`;
}

// One sentence about the round up to this decision.
/** @param {Round} round @param {Decision} decision @param {boolean} complete @returns {string} */
export function roundSentence(round, decision, complete) {
  const name = `Round ${round.number + 1}:`;
  const drafted = round.nodes.length;
  if (drafted === 0) return `${name} nothing guessed, so one call yields one token.`;
  if (decision.kind === "draft") return `${name} ${drafted} guessed, and one call of the large model checks them all.`;
  const accepted = round.tokens
    .slice(0, decision.step + 1)
    .filter(({ kind }, i) => kind === "accepted" && (i < decision.step || decision.kind === "accepted")).length;
  if (!complete) return `${name} ${drafted} guessed, ${accepted} accepted so far.`;
  return `${name} ${accepted} of ${drafted} accepted: one call yields ${count(round.tokens.length, "token")}.`;
}
