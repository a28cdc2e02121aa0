// What belongs together lights up together: a token, its node, its race bar, its rows of the statistics.

/** @import { Lit, Node, Round } from "../types.d.ts" */

import { light, onLight } from "../shared/store.js";

export const pathKey = (path) => path.join(".");

// Of a drafted node.
/**
 * @param {Round} round
 * @param {Node} node
 * @returns {Lit}
 */
export function ofNode(round, node) {
  return {
    round: round.number,
    path: pathKey(node.path),
    token_id: node.token_id,
    index: node.path.at(-1),
    kind: node.status === "accepted" ? "accepted" : null,
  };
}

// Of the token that a round emitted at a step; its node where it was drafted.
/**
 * @param {Round} round
 * @param {number} step
 * @returns {Lit}
 */
export function ofToken(round, step) {
  const token = round.tokens[step];
  const parent = round.nodes.length > 0 ? (round.steps[step]?.path ?? []) : [];
  if (token.kind === "accepted") {
    const node = round.nodes.find(({ path, status }) => status === "accepted" && path.length === step + 1);
    if (node) return ofNode(round, node);
  }
  return { round: round.number, path: pathKey([...parent, "last"]), token_id: token.id, index: null, kind: token.kind };
}

// Whether what is lit is, or contains, this one: same place, or same row of the statistics.
/**
 * @param {Lit | null} lit
 * @param {Lit | null} what
 */
export function matches(lit, what) {
  if (!lit || !what) return false;
  if (lit.path !== undefined) return lit.round === what.round && lit.path === what.path;
  if (lit.kind) return lit.kind === what.kind;
  return lit.index === what.index && what.index !== null;
}

// Lights up what `find(element)` says while the pointer is on it; Up and Down go through `items()`.
export function mountLight(element, find, items) {
  element.addEventListener("pointerover", (event) => light(find(event.target)));
  // A press on a part focuses the whole, which stands for nothing: the part stays lit.
  element.addEventListener("focusin", (event) => find(event.target) && light(find(event.target)));
  // A finger leaves with every tap: what it tapped stays lit until something else is.
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

// Marks what is lit among `elements(lit)`; `of(element)` says what an element is.
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
