// Linked highlighting: a token, its node, its race bar and its rows of the statistics light up together.

/** @import { Lit, Node, Round } from "../types.d.ts" */

import { light, onLight, selectedDecision, selectedRound, state, subscribe } from "../shared/store.js";
import { onFrame } from "../shared/view.js";

export const pathKey = (path) => path.join(".");

// The description of a drafted node's highlight, by which other panels find their elements of the same node.
/** @param {Round} round @param {Node} node @returns {Lit} */
export function ofNode(round, node) {
  return {
    round: round.number,
    path: pathKey(node.path),
    token_id: node.token_id,
    index: node.path.at(-1),
    kind: node.status === "accepted" ? "accepted" : null,
  };
}

// The highlight of the token that a round emitted at a step, with the token's node if it was drafted.
/** @param {Round} round @param {number} step @returns {Lit} */
export function ofToken(round, step) {
  const token = round.tokens[step];
  const parent = round.nodes.length > 0 ? (round.steps[step]?.path ?? []) : [];
  if (token.kind === "accepted") {
    const node = round.nodes.find(({ path, status }) => status === "accepted" && path.length === step + 1);
    if (node) return ofNode(round, node);
  }
  return { round: round.number, path: pathKey([...parent, "last"]), token_id: token.id, index: null, kind: token.kind };
}

// Whether an element with the highlight `mark` lights up with `lit`: it is the same token, or in the same row.
/** @param {Lit | null} lit @param {Lit | null} mark */
export function matches(lit, mark) {
  if (!lit || !mark) return false;
  if (lit.path !== undefined) return lit.round === mark.round && lit.path === mark.path;
  if (lit.kind) return lit.kind === mark.kind;
  return lit.index === mark.index && mark.index !== null;
}

// Highlights what `find(element)` returns while the pointer is on it. Up and Down move through `items()`.
export function mountLight(element, find, items) {
  element.addEventListener("pointerover", (event) => light(find(event.target)));
  // Pressing a part focuses the whole drawing, which has no highlight of its own. The part stays highlighted.
  element.addEventListener("focusin", (event) => find(event.target) && light(find(event.target)));
  // After a tap the pointer leaves at once, and the tapped part stays highlighted until the next one.
  element.addEventListener("pointerleave", ({ pointerType }) => pointerType !== "touch" && light(null));
  element.addEventListener("focusout", () => light(null));
  let index = -1;
  element.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const all = items?.() ?? [];
    if (event.key === "Escape") light(null);
    if (!step || all.length === 0) return;
    event.preventDefault();
    index = Math.min(Math.max(index + step, 0), all.length - 1);
    light(find(all[index]));
  });
}

// Marks the highlighted elements among `elements(lit)`. `markOf(element)` returns an element's highlight.
export function mountMarks(elements, markOf, fits = matches) {
  let marked = [];
  const draw = (lit) => {
    for (const element of marked) element.classList.remove("lit");
    marked = lit ? [...elements(lit)].filter((element) => fits(lit, markOf(element))) : [];
    for (const element of marked) element.classList.add("lit");
  };
  onLight(draw);
  return draw;
}

// Calls `draw` for each new selection, at most once a frame. Without a round, the panel is emptied, so that it does not
// show the run before. Returns a function that says whether the drawn selection is still selected.
export function mountSelected(element, draw) {
  let last = null;
  subscribe(
    onFrame(() => {
      if (last === state.selected) return;
      last = state.selected;
      const round = selectedRound();
      element.classList.toggle("empty", !round);
      if (round) draw(round, selectedDecision());
    }),
  );
  return () => last === state.selected && Boolean(selectedRound());
}
