// Model text is hostile input. Here it becomes visible text: never markup, never invisible.

// Characters that show nothing or reorder what stands around them: controls, zero-width, bidi marks.
const HIDDEN =
  /[\u0000-\u0009\u000B-\u001F\u007F-\u009F\u00AD\u061C\u115F\u1160\u17B4\u17B5\u180E\u200B-\u200F\u2028-\u202E\u2060-\u206F\u3164\uFE00-\uFE0F\uFEFF\uFFA0\uFFF9-\uFFFB]/u;
const SPECIAL = new RegExp(`(\\n|${HIDDEN.source})`, "u");

const codePoint = (char) => `U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

function picture(char) {
  if (char === "\n") return "⏎";
  if (char === "\t") return "⇥";
  return HIDDEN.test(char) ? `[${codePoint(char)}]` : char;
}

// A token as one line: spaces, line ends and controls become pictures.
/**
 * @param {string} text
 * @returns {string}
 */
export function visible(text) {
  if (text === "") return "…"; // part of a character that later tokens complete
  return [...text.replaceAll(" ", "␣")].map(picture).join("");
}

// For a sentence: the token in quotes, kept apart from the direction of the text around it.
/** @param {string} text */
export const quoted = (text) => `“\u2068${visible(text)}\u2069”`;

// At most `length` characters of a token, the last an ellipsis where some are missing.
/**
 * @param {string} text
 * @param {number} length
 * @returns {string}
 */
export function shortened(text, length) {
  const characters = [...visible(text)];
  return characters.length > length ? `${characters.slice(0, length - 1).join("")}…` : characters.join("");
}

// Adds text to an element so that it copies as it is while line ends and controls can be seen.
export function appendText(element, text) {
  for (const part of text.split(SPECIAL)) {
    if (part === "") continue;
    if (!SPECIAL.test(part)) {
      element.append(part);
      continue;
    }
    const mark = document.createElement("span");
    mark.className = part === "\n" ? "line-end" : "control";
    mark.dataset.shown = part === "\n" ? "⏎" : picture(part);
    mark.textContent = part;
    element.append(mark);
    if (part !== "\n") element.classList.add("isolated");
  }
}

// The word in the colour of who wrote it; the space before it has none, so that no line ends in a sliver of colour.
export function appendInk(element, text) {
  const word = text.trimStart() === "" ? text : text.replace(/^ +/, "");
  const ink = document.createElement("span");
  ink.className = "ink";
  appendText(ink, word);
  element.classList.add("inked");
  element.append(text.slice(0, text.length - word.length), ink);
}

/**
 * @param {number} part
 * @param {number} whole
 */
export const percent = (part, whole) => (whole > 0 ? `${Math.round((100 * part) / whole)}%` : "–");

// Three significant digits, never exponents for ordinary numbers; null is what JSON has for infinity.
/**
 * @param {number | null | undefined} value
 * @returns {string}
 */
export function digits(value) {
  if (value === null || value === undefined) return "∞";
  if (value !== 0 && Math.abs(value) < 0.0001) return value.toExponential(1);
  return value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}
