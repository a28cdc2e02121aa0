// The values in an address: texts that are read according to their field. A message says what would be right.

import { quoted } from "../shared/labels.js";

// A visitor's value for a message: short, and with all its characters visible.
/** @param {string} text */
export const shown = (text) => quoted(text, 61);

// A number for an address, with six digits, which are more than any slider can set. Whole numbers keep all digits.
/** @param {unknown} value @returns {string} */
export function written(value) {
  if (Array.isArray(value)) return value.map(written).join(",");
  if (typeof value !== "number" || Number.isInteger(value)) return String(value);
  return String(Number(value.toPrecision(15 < String(value).length ? 6 : 15)));
}

function rangeOf({ least = null, most = null, whole }) {
  const kind = whole ? "a whole number" : "a number";
  if (least !== null && most !== null) return `${kind} from ${least} to ${most}`;
  return least === null ? kind : `${kind} of at least ${least}`;
}

function readNumber(text, field) {
  const value = text.trim() === "" ? NaN : Number(text);
  const fits = Number.isFinite(value) && value >= (field.least ?? -Infinity) && value <= (field.most ?? Infinity);
  return fits && (!field.whole || Number.isInteger(value)) ? value : undefined;
}

// Names may contain any character, including the comma that separates them.
export const writtenNames = (names) => names.map(encodeURIComponent).join(",");

function readNames(text, { fewest, longest }) {
  try {
    const names = text.split(",").map(decodeURIComponent);
    return names.length >= fewest && names.length <= longest ? names : undefined;
  } catch {
    return undefined; // a percent sign that encodes nothing
  }
}

function readList(text, field) {
  const values = text.split(",").map((entry) => readNumber(entry, field));
  return values.includes(undefined) || values.length < field.fewest || values.length > field.longest
    ? undefined
    : values;
}

// A tree in the server's notation: the number of children of each node, in level order, for existing nodes only.
function readTree(text) {
  let size = 1;
  const exists = (count, row) => /^\d{1,4}$/.test(count) && row < size && Boolean((size += Number(count)));
  return text === "" || text.split(".").every(exists) ? text : undefined;
}

// A JSON list of questions and answers in turn.
function readConversation(text) {
  try {
    const turns = JSON.parse(text || "[]");
    return turns.length % 2 === 0 && turns.every((each) => typeof each === "string") ? text : undefined;
  } catch {
    return undefined;
  }
}

const FLAGS = { 1: true, true: true, 0: false, false: false };
const READERS = {
  text: (text) => text,
  tree: readTree,
  conversation: readConversation,
  flag: (text) => (Object.hasOwn(FLAGS, text) ? FLAGS[text] : undefined),
  choice: (text, { choices }) => choices.find((choice) => String(choice) === text),
  number: readNumber,
  list: readList,
  names: readNames,
};

const RIGHT = {
  tree: () => "the number of children of each node, such as 3.1.1",
  conversation: () => 'a list of questions and answers in turn, such as ["Hello","Hi!"]',
  flag: () => "true or false",
  choice: ({ choices }) => `one of ${choices.join(", ")}`,
  number: rangeOf,
  list: (field) => `${field.fewest} to ${field.longest} numbers with commas between them, each ${rangeOf(field)}`,
  names: ({ fewest, longest }) => `${fewest} to ${longest} names with commas between them`,
};

// Reads the text of a field, which components/page/setup.py describes. RangeError with a message if it does not fit.
export function read(name, text, field) {
  const value = READERS[field.kind](text, field);
  if (value !== undefined) return value;
  const instead = field.default === null || field.default === "" ? "" : `; ${field.default} is used instead`;
  throw new RangeError(misfit(name, text, `${RIGHT[field.kind](field)}${instead}`));
}

// The description of a right number if this text is none, otherwise an empty text.
export const wrong = (text, field) => (readNumber(text, field) === undefined ? `Give ${rangeOf(field)}.` : "");

// The message for a value that does not fit. `right` describes a valid value.
/** @param {string} name @param {string} text @param {string} right */
export const misfit = (name, text, right) => `${name} = ${shown(text)} in the address is not valid: give ${right}.`;

// Reads the texts of all fields. Missing and invalid values get their defaults, and invalid ones a message.
/**
 * @param {Record<string, string>} texts
 * @param {Record<string, any>} fields
 * @param {(key: string) => string} [name]
 * @returns {{ values: any, messages: string[] }}
 */
export function readAll(texts, fields, name = (key) => key) {
  const messages = [];
  /** @type {Record<string, any>} */
  const values = {};
  for (const [key, field] of Object.entries(fields)) {
    values[key] = field.default;
    if (!(key in texts)) continue;
    try {
      values[key] = read(name(key), texts[key], field);
    } catch (error) {
      messages.push(error.message);
    }
  }
  for (const key of Object.keys(texts))
    if (!(key in fields)) messages.push(unknown(name(key), Object.keys(fields).map(name)));
  return { values, messages };
}

// The values that differ from the default, as texts of an address.
export function differing(values, fields) {
  const text = (value) => written(value ?? "");
  const entries = Object.entries(values).filter(([key, value]) => text(value) !== text(fields[key].default));
  const flag = (value) => (value ? "1" : "0");
  return Object.fromEntries(entries.map(([key, value]) => [key, (fields[key].kind === "flag" ? flag : text)(value)]));
}

/** @param {string} name @param {string[]} names */
export const unknown = (name, names) =>
  `${shown(name)} in the address is not a setting of this page, so it was left out. The settings are: ${names.join(", ")}.`;

// Writes values into the page's address; null removes one. isStep: whether the browser's Back returns to the old address.
/** @param {Record<string, string | number | null>} values */
export function toAddress(values, isStep = false) {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(values)) {
    if (value === null) url.searchParams.delete(name);
    else url.searchParams.set(name, String(value));
  }
  if (url.href !== location.href) history[isStep ? "pushState" : "replaceState"](history.state, "", url);
}
