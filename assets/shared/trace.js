// The file format of a run, `specdec.trace.Generation` as JSON: reading, writing and error messages.

/** @import { Generation, Run } from "../types.d.ts" */

import { RECORD } from "./record.js";

export const MOST_BYTES = 5_000_000;
// Characters of one text; a browser needs half a minute to lay out a million short lines.
const MOST_CHARACTERS = 200_000;

class Mistake extends Error {}

const show = (value) => {
  const text = JSON.stringify(value) ?? "missing";
  return text.length > 40 ? `${text.slice(0, 39)}…` : text;
};

function must(holds, where, value, expected) {
  if (!holds) throw new Mistake(`${where || "the file"} is ${show(value)}; it should be ${expected}`);
}

// A description of a field's valid values.
function expectation({ wanted: words, type, enum: names, minimum, maximum }) {
  if (words) return words;
  if (names) return `one of ${names.join(", ")}`;
  if (type === "string") return `a text of at most ${MOST_CHARACTERS} characters`;
  if (type === "boolean") return "true or false";
  if (type === "array") return "a list";
  const range = maximum === undefined ? `of at least ${minimum}` : `from ${minimum} to ${maximum}`;
  return `a ${type === "integer" ? "whole number" : "number"} ${range}`;
}

function fits(value, { type, enum: names, minimum = -Infinity, maximum = Infinity }) {
  if (names) return names.includes(value);
  if (type === "string") return typeof value === type && value.length <= MOST_CHARACTERS;
  if (type === "boolean") return typeof value === type;
  if (type === "array") return Array.isArray(value);
  const number = type === "integer" ? Number.isInteger(value) : Number.isFinite(value);
  return number && minimum <= value && value <= maximum;
}

// Checks a value against the schema of its field. `where` is the value's place in the file.
function check(value, field, where) {
  if (value === null && field.nullable) return;
  if (field.record) return checkRecord(value, field.record, where);
  must(fits(value, field), where, value, expectation(field));
  if (field.items) value.forEach((item, i) => check(item, field.items, `${where}[${i}]`));
}

// Checks a record. Fields that old files lack get their defaults.
function checkRecord(value, name, where) {
  must(value !== null && typeof value === "object" && !Array.isArray(value), where, value, "an object");
  for (const [key, field] of Object.entries(RECORD[name])) {
    if (value[key] === undefined && "default" in field) value[key] = field.default;
    check(value[key], field, where === "" ? key : `${where}.${key}`);
  }
}

// Checks the paths of a tree, including the root's.
function checkTree(paths, where) {
  const keys = new Set([""]);
  paths.forEach((path, i) => {
    must(path.length > 0 && keys.has(path.slice(0, -1).join()), where(i), path, "below a node that comes before it");
    must(!keys.has(path.join()), where(i), path, "listed once");
    keys.add(path.join());
  });
  return keys;
}

// Checks further conditions that the panels need, beyond the types of the fields.
function checkRound(item, i, rounds = "rounds") {
  const where = `${rounds}[${i}]`;
  must(item.number === i, `${where}.number`, item.number, `${i}: rounds are counted from 0 without gaps`);
  must(item.tokens.length > 0, `${where}.tokens`, item.tokens, "at least one token");
  const [steps, tokens] = [item.steps.length, item.tokens.length];
  must(steps === 0 || steps === tokens, `${where}.steps`, steps, `0 or ${tokens}, one for each token`);
  const pieces = item.tokens.map((token) => token.text).join("");
  must(item.text === pieces, `${where}.text`, item.text, `the text of its tokens, ${show(pieces)}`);
  const paths = item.nodes.map((node) => node.path);
  const keys = checkTree(paths, (j) => `${where}.nodes[${j}].path`);
  item.steps.forEach((step, j) => {
    const exists = step.path.length === 0 || keys.has(step.path.join());
    must(exists && step.path.length <= j, `${where}.steps[${j}].path`, step.path, "the path of a drafted node");
    step.trials.forEach((trial, i) => {
      const below =
        trial.path.length > step.path.length && trial.path.slice(0, step.path.length).join() === step.path.join();
      const path = `${where}.steps[${j}].trials[${i}].path`;
      must(below && keys.has(trial.path.join()), path, trial.path, `a drafted node below [${step.path}]`);
    });
  });
}

export function checkSize(bytes, most) {
  const megabytes = (count) => (count / 1e6).toLocaleString("en", { maximumSignificantDigits: 3 });
  if (bytes > most)
    throw new Mistake(`the file has ${megabytes(bytes)} MB; at most ${megabytes(most)} MB can be opened`);
}

// Parses a file's text as a run. An Error says in words what does not fit.
/** @param {string} source @param {number} [most] @returns {Generation} */
export function parse(source, most = MOST_BYTES) {
  checkSize(source.length, most);
  let value;
  try {
    value = JSON.parse(source);
  } catch {
    throw new Mistake("the file is not JSON; open one that was saved here as a trace");
  }
  checkRecord(value, "Generation", "");
  checkTree(value.paths, (i) => `paths[${i}]`);
  must(value.rounds.length > 0, "rounds", value.rounds, "at least one round");
  value.rounds.forEach((round, i) => checkRound(round, i));
  value.baseline?.forEach((round, i) => checkRound(round, i, "baseline"));
  return value;
}

// Converts a record to the form in which the store holds a run.
/** @param {Generation} value @returns {Run} */
export function toRun(value) {
  const { rounds, prefill_seconds: prefillSeconds, target, draft, paths, ...others } = value;
  const { baseline = [], timings = [], ...setup } = others;
  const models = [{ role: "target", name: target }, ...(draft ? [{ role: "draft", name: draft }] : [])];
  const depth = Math.max(0, ...paths.map(({ length }) => length));
  const shape = { paths, num_draft_tokens: paths.length, depth };
  return { rounds, prefillSeconds, baseline, timings, setup: { ...setup, ...shape, models } };
}

// Converts the shown run to the object that is saved in a file.
/** @param {Run} run @returns {Generation} */
export function fromState({ setup, rounds, prefillSeconds, baseline = [], timings = [] }) {
  const name = (role) => setup.models.find((model) => model.role === role)?.name ?? "";
  const names = { target: name("target"), draft: name("draft") };
  /** @type {any} */
  const values = { ...setup, ...names, prefill_seconds: prefillSeconds, rounds, baseline, timings };
  /** @type {[string, any][]} */
  const fields = Object.entries(RECORD.Generation);
  return /** @type {any} */ (
    Object.fromEntries(fields.map(([name, { default: usual }]) => [name, values[name] ?? usual]))
  );
}
