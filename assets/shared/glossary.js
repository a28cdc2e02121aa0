// The definitions of the page's terms. A definition appears beside an element with [data-term], or at one of
// `PLACES`, while the visitor points at it or focuses it.

import { METHOD_SENTENCES, METHODS } from "./catalogue.js";
import { make, windowZoom, zoomOf } from "./view.js";

export const TERMS = {
  ...METHOD_SENTENCES,
  topology: "The shape of the draft: one token, a sequence, several alternatives, or a tree of sequences.",
  k: "How many tokens the draft proposes for one target call.",
  race: "A way to choose a token at random: each token draws a random number e and arrives at the time e / probability. The token that arrives first is chosen.",
  arrival:
    "The time at which a token arrives in a race: e / q in the draft's race, e / p in the target's. Likelier tokens tend to arrive earlier.",
  accepted: "The draft proposed this token, and the target accepts it.",
  rejected:
    "The draft proposed this token, and the target rejects it. All tokens that were drafted to follow it are lost, too.",
  correction:
    "The token that wins the target's race although the draft did not propose it. ERSD writes this token, and the round ends.",
  residual:
    "The distribution from which GSD draws a token after a rejection: the target's probabilities minus the draft's, with 0 for negative values, scaled to sum to 1.",
  bonus: "One more token that the target adds after all tokens of a drafted path were accepted.",
  sampled: "A token that the target wrote alone, because nothing was drafted for this place.",
  path: "A chain of drafted tokens in the tree. The first of them directly follows the text so far.",
  plain:
    "Autoregressive decoding: the large model (target) writes alone, with one call for each token. Here it gets the same prompt and seed as the run.",
  distribution: "The probabilities of all tokens that may come next: P is the target's, Q is the draft's.",
  "child index":
    "The draft's alternatives for one place in the text are numbered 0, 1, 2, … in the order of drafting. This number is the child index.",
  acceptance: "How often a drafted token is accepted. R(i) is the acceptance of the alternative with index i.",
  optimum:
    "The highest acceptance that any rule can reach without changing the target's distribution. It depends on P, Q and the number of drafted alternatives.",
  entropy: "How uncertain a distribution is, in bits: 0 if one outcome is certain, 1 for a fair coin.",
  TV: "Total variation: half the sum of all |p − q|, from 0 for equal distributions to 1 for disjoint ones.",
  D_KL: "Kullback–Leibler divergence of P from Q in bits: 0 if they are equal, infinite if Q lacks a token that P has.",
  "n-grams":
    "A way to draft without a second model: find an earlier place in the text with the same last words, and propose the words that followed there.",
  watermark:
    "A hidden mark in a text that can only be found with its key; here the key is the seed of the random numbers.",
  "p-value": "The probability of a deviation at least this large if the decoder is right.",
  "χ²": "The sum over all outcomes of (count − expected count)² / expected count. It is large if the counts do not fit the distribution.",
  index:
    "Sender and receiver draw the same list of proposals. The index is the position of the chosen proposal in this list, counted from 0. It is small if the draft guesses well.",
  "Elias γ": "A code in which small numbers take few bits: 1 takes one bit, 2 and 3 take three.",
  "relative speed":
    "Tokens per second, divided by the tokens per second of plain decoding. Both are computed from the median time of a round, so that a few slow rounds do not change them.",
  call: "One evaluation of the large target model; it checks all drafted tokens at once.",
  "block efficiency":
    "The average number of tokens that one target call yields, which the paper calls block efficiency. Without a draft it is 1. With a draft it is at most the length of the longest path, plus 1.",
};

// Labels of the form and its choices of methods, by their selectors. Their HTML has no [data-term].
const methodLabel = (value) => `:is(#method, #lossless-method) label:has([value="${value}"])`;
const PLACES = {
  ...Object.fromEntries(Object.entries(METHODS).map(([value, name]) => [methodLabel(value), name])),
  ":is(#topology, #lossless-topology) .title": "topology",
  ":is(#k, #lossless-k) .title": "k",
  "#baseline label": "plain",
};

// A word or phrase of the text, made into an element that shows the definition of the term `name`.
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

// The parts of a sentence for `element.append`. Each term in it becomes an element that shows its definition.
/** @param {string} text */
export const explained = (text) =>
  text.split(NAMED).map((part, i) => (i % 2 === 0 ? part : term(NAMES.get(part.toLowerCase()), part)));

function termOf(target) {
  const place = Object.keys(PLACES).find((selector) => target.closest(selector));
  const element = target.closest("[data-term]") ?? (place && target.closest(place));
  return element && { element, text: TERMS[element.dataset.term ?? PLACES[place]] };
}

export function mountGlossary() {
  const note = Object.assign(make("div", "term-note"), { id: "term-note", role: "tooltip", hidden: true });
  document.querySelector(".shell").append(note);
  let described = null;
  const hide = () => {
    note.hidden = true;
    described?.removeAttribute("aria-describedby");
    described = null;
  };
  const tell = ({ target }) => {
    if (target === note) return; // the pointer may move onto the definition
    hide();
    const term = target instanceof Element && termOf(target);
    if (!term) return;
    note.hidden = false;
    note.textContent = term.text;
    described = term.element;
    described.setAttribute("aria-describedby", note.id);
    const { left, bottom, top } = term.element.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = note;
    const [zoom, page] = [zoomOf(note), windowZoom()];
    note.style.left = `${Math.max(8, Math.min(left / zoom, innerWidth / page / zoom - width - 8))}px`;
    const isBelow = bottom + zoom * height + 12 <= innerHeight / page;
    note.style.top = `${isBelow ? bottom / zoom + 6 : top / zoom - height - 6}px`;
  };
  for (const event of ["pointerover", "focusin"]) document.addEventListener(event, tell);
  document.addEventListener("keydown", ({ key }) => key === "Escape" && hide());
}
