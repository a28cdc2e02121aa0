// Keeps the place of a visitor who uses the keyboard. Without this, the focus would fall back to the start of the page
// when the button that has it is disabled or hidden.

import { onceDrawn, onFrame } from "./view.js";

const CONTROLS = 'button, select, summary, [role="region"][tabindex="0"]';

// The controls that take over from others. Otherwise it is the next one within the same element, or the one before it.
const PARTNERS = {
  "#generate": "#stop",
  "#stop": "#generate",
  ".skip": ".play",
  ".propose": ".typed",
  ".reveal": ".lesson .next",
};

const isUsable = (element) => !element.matches(":disabled") && element.checkVisibility({ visibilityProperty: true });

function heir(lost) {
  const rule = Object.keys(PARTNERS).find((selector) => lost.matches(selector));
  const partner = rule && document.querySelector(PARTNERS[rule]);
  if (partner && isUsable(partner)) return partner;
  const all = [...lost.parentElement.querySelectorAll(CONTROLS)];
  const place = all.indexOf(lost);
  const near = all.slice(place + 1).find(isUsable) ?? all.slice(0, Math.max(place, 0)).findLast(isUsable);
  if (near) return near;
  let region = lost.closest("section, main");
  while (region && !isUsable(region)) region = region.parentElement.closest("section, main");
  if (region && !region.hasAttribute("tabindex")) region.tabIndex = -1; // Enter, pressed twice, must do nothing there
  return region;
}

export function mountFocus() {
  let byKeys = false;
  for (const event of ["keydown", "pointerdown"])
    document.addEventListener(event, ({ type }) => (byKeys = type === "keydown"), true);
  let held = null; // the browser itself soon forgets an element that is disabled or hidden
  document.addEventListener("focusin", ({ target }) => (held = target));
  const hand = () => {
    if (![held, document.body].includes(document.activeElement) || isUsable(held)) return;
    if (byKeys && held.isConnected) heir(held)?.focus();
  };
  const onceAllDrawn = onFrame(() => onceDrawn(hand)); // the heir may appear in the same frame
  const isLost = ({ target }) => target.contains(held) && (target.disabled || target.hidden);
  new MutationObserver((changes) => held && changes.some(isLost) && onceAllDrawn()).observe(document.body, {
    subtree: true,
    attributeFilter: ["disabled", "hidden"],
  });
}
