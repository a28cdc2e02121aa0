// The definition of every term of the page, one sentence each. It is shown at elements with [data-term] and
// at the places below.

import { METHOD_SENTENCES, METHODS } from "./catalogue.js";
import { make, zoomOf } from "./view.js";

export const TERMS = {
  ...METHOD_SENTENCES,
  topology: "The shape of the draft: one token, a sequence, several alternatives, or a tree of sequences.",
  k: "How many tokens the draft proposes for one target call.",
  race: "Each token draws one random number e and arrives at e / probability; the first to arrive is the sample.",
  arrival:
    "The time of a token in a race: e / q in the draft's race, e / p in the target's. Likelier tokens tend to arrive earlier.",
  accepted: "The draft proposed this token, and the target accepts it.",
  rejected: "The draft proposed this token, and the target rejects it; everything below it in the tree is lost too.",
  correction: "The winner of the target's race, which ERSD writes if no drafted token is that winner.",
  residual:
    "The distribution from which GSD draws after a rejection: the target's probabilities minus the draft's where this is positive, scaled to sum to 1.",
  bonus: "One more token from the target, after every token of a drafted path was accepted.",
  sampled: "A token that the target wrote alone, because nothing was drafted for this place.",
  path: "A sequence of drafted tokens in the tree, from the text so far to a leaf.",
  plain:
    "Autoregressive decoding: the large model (target) alone, with one call for each token. It is measured here with the same prompt and seed.",
  distribution: "The probabilities of all tokens that may come next: P is the target's, Q is the draft's.",
  "child index": "The number of a drafted alternative among its siblings, counted from 0 in the order of drafting.",
  acceptance: "How often a drafted token is accepted. R(i) is the acceptance of the alternative with index i.",
  optimum:
    "The highest acceptance that any lossless rule can have; it depends on P, Q and the number of drafted alternatives.",
  entropy: "How uncertain a distribution is, in bits: 0 if one outcome is certain, 1 for a fair coin.",
  TV: "Total variation: half the sum of all |p − q|, from 0 for equal distributions to 1 for disjoint ones.",
  D_KL: "Kullback–Leibler divergence of P from Q in bits: 0 if they are equal, infinite if Q lacks a token that P has.",
  "n-grams":
    "A drafter that looks for an earlier place with the newest words and proposes what followed there. It needs no second model.",
  watermark:
    "A hidden mark in a text that can only be found with its key; here the key is the seed of the random numbers.",
  "p-value": "The probability of a deviation at least this large if the decoder is right.",
  "χ²": "The sum over all outcomes of (count − expected count)² / expected count; large if the counts do not fit the distribution.",
  index: "The number of the shared proposal that is taken; it is small if the draft guesses well.",
  "Elias γ": "A code in which small numbers take few bits: 1 takes one bit, 2 and 3 take three.",
  "relative speed":
    "Tokens per second, divided by those of plain decoding. Of the repeats of a round of drafting and checking, the median counts.",
  call: "One evaluation of the large target model; it checks all drafted tokens at once.",
  "block efficiency":
    "The paper's block efficiency: how many tokens one target call yields on average. Without a draft it is 1; with one it is at most the length of the longest path, plus 1.",
};

// Gradio's own labels and the choices of methods. They cannot have [data-term].
const PLACES = {
  ...Object.fromEntries(
    Object.entries(METHODS).map(([value, name]) => [
      `:is(#method, #lossless-method) label:has([value="${value}"])`,
      name,
    ]),
  ),
  ":is(#topology, #lossless-topology) .title": "topology",
  ":is(#k, #lossless-k) .title": "k",
  "#baseline label": "plain",
};

// Shows the definition of an element's term.
export function term(name, text) {
  const word = Object.assign(make("dfn", "", text), { tabIndex: 0 });
  word.dataset.term = name;
  return word;
}

const NAMES = new Map(Object.keys(TERMS).map((name) => [name.toLowerCase(), name]));
const NAMED = new RegExp(
  `(?<!\\p{L})(${[...NAMES.keys()].filter((name) => /^[a-z -]+$/.test(name)).join("|")})(?!\\p{L})`,
  "iu",
);

// A sentence for `element.append`, in which terms have their definitions.
/** @param {string} text */
export const explained = (text) =>
  text.split(NAMED).map((part, i) => (i % 2 === 0 ? part : term(NAMES.get(part.toLowerCase()), part)));

function termOf(target) {
  const place = Object.keys(PLACES).find((selector) => target.closest(selector));
  const element = target.closest("[data-term]") ?? (place && target.closest(place));
  return element && { element, text: TERMS[element.dataset.term ?? PLACES[place]] };
}

export function mountGlossary() {
  const note = make("div", "term-note");
  note.setAttribute("role", "tooltip");
  note.id = "term-note";
  note.hidden = true;
  document.querySelector(".shell").append(note);
  const tell = ({ target }) => {
    const found = target instanceof Element && termOf(target);
    note.hidden = !found;
    if (!found) return;
    note.textContent = found.text;
    found.element.setAttribute("aria-describedby", note.id);
    const { left, bottom, top } = found.element.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = note;
    const zoom = zoomOf(note);
    note.style.left = `${Math.max(8, Math.min(left / zoom, innerWidth / zoom - width - 8))}px`;
    note.style.top = `${bottom + zoom * height + 12 > innerHeight ? top / zoom - height - 6 : bottom / zoom + 6}px`;
  };
  for (const event of ["pointerover", "focusin"]) document.addEventListener(event, tell);
  document.addEventListener("keydown", ({ key }) => key === "Escape" && (note.hidden = true));
}
