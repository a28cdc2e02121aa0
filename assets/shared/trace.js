// The file format of a run, `specdec.trace.Generation` as JSON: from it, to it, and what is wrong with one.

/** @import { Generation, Run } from "../types.d.ts" */

import { KINDS, METHODS, STATUSES } from "./catalogue.js";

export const MOST_BYTES = 5_000_000;

const FINISHES = ["length", "context", "eos"];
const STAGES = ["draft", "evaluate", "verify", "rest"];

class Mistake extends Error {}

const show = (value) => {
  const text = JSON.stringify(value) ?? "missing";
  return text.length > 40 ? `${text.slice(0, 39)}…` : text;
};

function must(holds, where, value, wanted) {
  if (!holds) throw new Mistake(`${where || "the file"} is ${show(value)}; it should be ${wanted}`);
}

// One checker per type: each gets the value and where it stands.
const number = (value, where) => must(Number.isFinite(value) && value >= 0, where, value, "a number of at least 0");
const probability = (value, where) =>
  must(Number.isFinite(value) && value >= 0 && value <= 1 + 1e-6, where, value, "a probability");
const whole = (value, where) =>
  must(Number.isInteger(value) && value >= 0, where, value, "a whole number of at least 0");
const text = (value, where) => must(typeof value === "string", where, value, "a text");
const truth = (value, where) => must(typeof value === "boolean", where, value, "true or false");
const among = (names) => (value, where) => must(names.includes(value), where, value, `one of ${names.join(", ")}`);
const orNull = (check) => (value, where) => value === null || check(value, where);
// Records of before it was kept do not have it.
const added = (check) => (value, where) => value === undefined || check(value, where);
const list = (check) => (value, where) => {
  must(Array.isArray(value), where, value, "a list");
  value.forEach((item, i) => check(item, `${where}[${i}]`));
};
const record = (fields) => (value, where) => {
  must(value !== null && typeof value === "object" && !Array.isArray(value), where, value, "an object");
  for (const [name, check] of Object.entries(fields)) check(value[name], where === "" ? name : `${where}.${name}`);
};

const path = list(whole);
const arrival = record({
  token_id: whole,
  text,
  exponential: number,
  q: probability,
  p: probability,
  arrival_q: orNull(number),
  arrival_p: orNull(number),
});
const trial = record({
  path,
  token_id: whole,
  u: probability,
  p: probability,
  q: probability,
  ratio: orNull(number),
  accepted: truth,
});
const round = record({
  number: whole,
  position: whole,
  tokens: list(record({ id: whole, text, kind: among(Object.keys(KINDS)) })),
  nodes: list(
    record({
      path,
      token_id: whole,
      text,
      status: among(Object.keys(STATUSES)),
      q: orNull(probability),
      p: orNull(probability),
    }),
  ),
  steps: list(
    record({
      path,
      position: whole,
      leading: list(arrival),
      winner_q: orNull(whole),
      winner_p: whole,
      trials: list(trial),
      token_id: whole,
      kind: among(Object.keys(KINDS)),
      optimum: added(orNull(probability)),
    }),
  ),
  seconds: record(Object.fromEntries(STAGES.map((stage) => [stage, number]))),
  text,
  finish: orNull(among(FINISHES)),
});
const generation = record({
  method: among(Object.keys(METHODS)),
  paths: list(path),
  prompt: text,
  prompt_ids: list(whole),
  seed: whole,
  temperature: number,
  top_k: whole,
  top_p: number,
  max_new_tokens: whole,
  target: text,
  draft: text,
  prefill_seconds: number,
  rounds: list(round),
  arithmetic: added(text),
  draft_temperature: added(orNull(number)),
});

// The paths of a tree, the root's included.
function checkTree(paths, where) {
  const seen = new Set([""]);
  paths.forEach((path, i) => {
    must(path.length > 0 && seen.has(path.slice(0, -1).join()), where(i), path, "below a node that stands before it");
    must(!seen.has(path.join()), where(i), path, "there once");
    seen.add(path.join());
  });
  return seen;
}

// What the panels rely on beyond the types.
function checkRound(item, i) {
  const where = `rounds[${i}]`;
  must(item.number === i, `${where}.number`, item.number, `${i}: rounds are counted from 0 without gaps`);
  must(item.tokens.length > 0, `${where}.tokens`, item.tokens, "at least one token");
  const steps = item.steps.length;
  must(
    steps === 0 || steps === item.tokens.length,
    `${where}.steps`,
    steps,
    `empty or one for each of the ${item.tokens.length} tokens`,
  );
  const pieces = item.tokens.map((token) => token.text).join("");
  must(item.text === pieces, `${where}.text`, item.text, `that of its tokens, ${show(pieces)}`);
  const seen = checkTree(
    item.nodes.map((node) => node.path),
    (j) => `${where}.nodes[${j}].path`,
  );
  item.steps.forEach((step, j) => {
    const known = step.path.length === 0 || seen.has(step.path.join());
    must(known && step.path.length <= j, `${where}.steps[${j}].path`, step.path, "the path of a drafted node");
    step.trials.forEach((trial, i) => {
      const below =
        trial.path.length > step.path.length && trial.path.slice(0, step.path.length).join() === step.path.join();
      const path = `${where}.steps[${j}].trials[${i}].path`;
      must(below && seen.has(trial.path.join()), path, trial.path, `a drafted node below [${step.path}]`);
    });
  });
}

export function checkSize(bytes, most) {
  const megabytes = (count) => (count / 1e6).toLocaleString("en", { maximumSignificantDigits: 3 });
  if (bytes > most)
    throw new Mistake(`the file has ${megabytes(bytes)} MB; at most ${megabytes(most)} MB can be opened`);
}

// The run in a file's text; an Error says in words what does not fit.
/**
 * @param {string} source
 * @param {number} [most]
 * @returns {Generation}
 */
export function parse(source, most = MOST_BYTES) {
  checkSize(source.length, most);
  let value;
  try {
    value = JSON.parse(source);
  } catch {
    throw new Mistake("the file is not JSON; open one that was saved here as a trace");
  }
  generation(value, "");
  checkTree(value.paths, (i) => `paths[${i}]`);
  must(value.rounds.length > 0, "rounds", value.rounds, "at least one round");
  value.rounds.forEach(checkRound);
  return value;
}

// As the store wants it.
/**
 * @param {Generation} value
 * @returns {Run}
 */
export function toRun(value) {
  const { rounds, prefill_seconds: prefillSeconds, target, draft, paths, ...setup } = value;
  const models = [{ role: "target", name: target }, ...(draft ? [{ role: "draft", name: draft }] : [])];
  const depth = Math.max(0, ...paths.map(({ length }) => length));
  return { rounds, prefillSeconds, setup: { ...setup, paths, models, num_draft_tokens: paths.length, depth } };
}

// The shown run as the file's object: fields in the order in which Python writes them.
/**
 * @param {Run} run
 * @returns {Generation}
 */
export function fromState({ setup, rounds, prefillSeconds }) {
  const name = (role) => setup.models.find((model) => model.role === role)?.name ?? "";
  const { method, paths, prompt, prompt_ids, seed, temperature, top_k, top_p, max_new_tokens } = setup;
  return {
    method,
    paths,
    prompt,
    prompt_ids,
    seed,
    temperature,
    top_k,
    top_p,
    max_new_tokens,
    target: name("target"),
    draft: name("draft"),
    prefill_seconds: prefillSeconds,
    rounds,
    arithmetic: setup.arithmetic ?? "",
    draft_temperature: setup.draft_temperature ?? null,
  };
}
