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

// Whether an element with the highlight `what` lights up with `lit`: it is the same token, or in the same row.
/** @param {Lit | null} lit @param {Lit | null} what */
export function matches(lit, what) {
  if (!lit || !what) return false;
  if (lit.path !== undefined) return lit.round === what.round && lit.path === what.path;
  if (lit.kind) return lit.kind === what.kind;
  return lit.index === what.index && what.index !== null;
}

// Highlights what `find(element)` returns while the pointer is on it. Up and Down move through `items()`.
export function mountLight(element, find, items) {
  element.addEventListener("pointerover", (event) => light(find(event.target)));
  // Pressing a part focuses the whole drawing, which has no highlight of its own. The part stays highlighted.
  element.addEventListener("focusin", (event) => find(event.target) && light(find(event.target)));
  // After a tap the pointer leaves at once, and the tapped part stays highlighted until the next one.
  element.addEventListener("pointerleave", ({ pointerType }) => pointerType !== "touch" && light(null));
  element.addEventListener("focusout", () => light(null));
  let at = -1;
  element.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const all = items?.() ?? [];
    if (event.key === "Escape") light(null);
    if (!by || all.length === 0) return;
    event.preventDefault();
    at = Math.min(Math.max(at + by, 0), all.length - 1);
    light(find(all[at]));
  });
}

// Marks the highlighted elements among `elements(lit)`. `of(element)` returns an element's highlight.
export function mountMarks(elements, of, fits = matches) {
  let marked = [];
  const draw = (lit) => {
    for (const element of marked) element.classList.remove("lit");
    marked = lit ? [...elements(lit)].filter((element) => fits(lit, of(element))) : [];
    for (const element of marked) element.classList.add("lit");
  };
  onLight(draw);
  return draw;
}

// Calls `draw` for each new selection, at most once a frame. Without a round, the panel is emptied, so that it does not
// show the run before. Returns a function that says whether the drawn selection is still selected.
export function mountSelected(element, draw) {
  let drawn = null;
  subscribe(
    onFrame(() => {
      if (drawn === state.selected) return;
      drawn = state.selected;
      const round = selectedRound();
      element.classList.toggle("empty", !round);
      if (round) draw(round, selectedDecision());
    }),
  );
  return () => drawn === state.selected && Boolean(selectedRound());
}
