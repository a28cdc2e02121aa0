// Makes a model's text safe to show: it must never act as markup, and no character may be invisible.

import { make } from "./view.js";

// Invisible characters and those that reorder the text around them: controls, overrides of the writing direction.
const HIDDEN =
  /[\u0000-\u0009\u000B-\u001F\u007F-\u009F\u00AD\u115F\u1160\u17B4\u17B5\u180E\u200B\u2028-\u202E\u2060-\u206F\u3164\uFEFF\uFFA0\uFFF9-\uFFFB]/u;
// Joiners, direction marks and variation selectors are parts of words and emoji, and hidden only if they stand alone.
const JOINING = /^[\u061C\u200C-\u200F\uFE00-\uFE0F]+$/u;
const SPECIAL = new RegExp(`(\\r\\n|\\n|${HIDDEN.source})`, "u");

const codeOf = (char) => `[U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`;

function picture(char) {
  if (char === "\n") return "⏎";
  if (char === "\t") return "⇥";
  return HIDDEN.test(char) ? codeOf(char) : char;
}

// A token on one line: spaces, line ends and controls become visible symbols, and many spaces their number.
/** @param {string} text @returns {string} */
export function visible(text) {
  if (text === "") return "…"; // part of a character that later tokens complete
  const characters = [...text.replaceAll("\r\n", "\n").replaceAll(" ", "␣")];
  const words = characters.map(JOINING.test(text) ? codeOf : picture).join("");
  return words.replace(/␣{3,}/g, (spaces) => `␣×${spaces.length}`); // an indentation
}

// A token in quotes, whatever the direction of the text around it. length: as for `shortened`.
/** @param {string} text @param {number} [length] */
export const quoted = (text, length = Infinity) => `“\u2068${shortened(text, length)}\u2069”`;

// A text in quotes for a sentence, on one line, with its spaces as they are.
export function spoken(text) {
  const words = text.trim().replace(/\s+/g, " ") || text;
  return `“\u2068${visible(words).replaceAll("␣", " ")}\u2069”`;
}

// A token, shortened to at most `length` characters. An ellipsis at the end shows that some are missing.
/** @param {string} text @param {number} length @returns {string} */
export function shortened(text, length) {
  const characters = [...visible(text)];
  return characters.length > length ? `${characters.slice(0, length - 1).join("")}…` : characters.join("");
}

// Adds text in which line ends and controls are visible. A copy of it gives the original text.
export function appendText(element, text) {
  for (const part of text.split(SPECIAL)) {
    if (part === "") continue;
    if (!SPECIAL.test(part)) {
      element.append(part);
      continue;
    }
    const endsLine = part.endsWith("\n");
    const mark = make("span", endsLine ? "line-end" : "control", part);
    mark.dataset.shown = endsLine ? "⏎" : picture(part);
    element.append(mark);
    if (!endsLine) element.classList.add("isolated");
  }
}

// A token in its author's colour, without the space before it, so that no line ends with a strip of colour.
/** @param {string} kind @param {string} text */
export function tokenElement(kind, text) {
  const word = text.trimStart() === "" ? text : text.replace(/^ +/, "");
  const ink = make("span", "ink");
  appendText(ink, word);
  return make(kind === "rejected" ? "s" : "span", `token ${kind} inked`, text.slice(0, text.length - word.length), ink);
}

// A number of things: “1 token”, “2 tokens”.
/** @param {number} n @param {string} word */
export const count = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

/** @param {number} part @param {number} total */
export const percent = (part, total) => (total > 0 ? `${Math.round((100 * part) / total)}%` : "–");

// A share or a probability as a percentage with one decimal place, or two if it is below 10%. A share that rounds to 0 is “0.0%”.
/** @param {number} value */
export const share = (value) => `${(100 * value).toFixed(value >= 0.00005 && value < 0.1 ? 2 : 1)}%`;

/** @param {number} number */
export const superscript = (number) => [...String(number)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)]).join("");

// A number with three significant digits, without exponents for ordinary sizes. JSON writes infinity as null.
/** @param {number | null | undefined} value @returns {string} */
export function digits(value) {
  if (value === null || value === undefined) return "∞";
  if (value !== 0 && Math.abs(value) < 0.0001) return value.toExponential(1);
  if (value >= 100000) return value.toExponential(1).replace("+", "");
  return value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}

/** @param {number} p */
export function pValue(p) {
  if (p < 1e-4) return digits(p).replace(".0e", "e").replace("-", "−");
  return String(p < 0.995 ? Number(p.toPrecision(2)) : Number(p.toFixed(3)));
}
