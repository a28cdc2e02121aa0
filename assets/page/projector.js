// Projector mode: the page as one slide that fills the screen. Esc or the button “Leave projector” ends it; an open lesson goes on.

import { windowZoom } from "../shared/view.js";
import { tell } from "./setup.js";
import { misfit, toAddress } from "./setup_fields.js";
import { openTab } from "./tabs.js";

// The slide's size in pixels of the page, before it is enlarged. A lesson beside it makes it wider.
const slide = () => (document.body.dataset.lesson ? { width: 1140, height: 600 } : { width: 920, height: 517 });
const isOn = () => document.body.hasAttribute("data-projector");

// In projector mode, enlarges the slide as far as all of it stays visible, or makes it smaller on a small screen.
// Without it, the style sheet's factor for large screens is used.
function fit() {
  const { style } = document.documentElement;
  for (const name of ["--zoom", "--screen"]) style.removeProperty(name);
  const { width, height } = slide();
  if (isOn()) style.setProperty("--zoom", Math.min(innerWidth / width, innerHeight / height).toFixed(4));
  // Safari does not enlarge the unit `dvh`, so there the style sheet would divide the window's height twice.
  const zoom = windowZoom();
  if (zoom !== 1) style.setProperty("--screen", `${innerHeight / zoom}px`);
}

// The slides of the open view. All parts with the same `data-slide` are one slide; the other slides are hidden.
function slidesOf(menu) {
  const slides = new Map(); // the chosen slide of each view
  const partsOf = (tab) => [...(tab?.querySelectorAll("[data-slide]") ?? [])];

  function show() {
    const tab = openTab();
    const parts = partsOf(tab);
    const names = [...new Set(parts.map(({ dataset }) => dataset.slide))];
    const name = names.includes(slides.get(tab)) ? slides.get(tab) : names[0];
    menu.replaceChildren(...names.map((text) => new Option(text, text, false, text === name)));
    menu.hidden = names.length < 2 || !isOn();
    for (const part of parts) part.toggleAttribute("data-aside", part.dataset.slide !== name);
  }
  menu.addEventListener("change", () => {
    slides.set(openTab(), menu.value);
    show();
  });
  // Switches to the slide that contains the element to look at.
  addEventListener("look", ({ target }) => {
    const [tab, part] = [openTab(), /** @type {Element} */ (target).closest("[data-slide]")];
    if (!isOn() || !tab?.contains(part)) return;
    slides.set(tab, /** @type {HTMLElement} */ (part).dataset.slide);
    show();
  });
  const later = () => requestAnimationFrame(() => requestAnimationFrame(show)); // when the tab is there
  // The whole body is observed, because the tabs may not be there yet.
  new MutationObserver(later).observe(document.body, { attributeFilter: ["aria-selected"], subtree: true });
  addEventListener("slides", later);
  return show;
}

// Begins projector mode if the page offers it, which it does not on a phone.
export function project() {
  /** @type {HTMLButtonElement | null} */
  const enter = document.querySelector("#projector .enter");
  if (enter?.checkVisibility()) enter.click();
}

export function mountProjector(element) {
  const [enter, leave] = element.querySelectorAll("button");
  const slides = slidesOf(element.querySelector(".slides"));
  // the link goes to the lessons' tab, whose scripts may not have arrived
  element.querySelector(".for-class").addEventListener("click", () => {
    const room = /** @type {HTMLDetailsElement | null} */ (document.querySelector("details.teach"));
    if (room) room.open = true;
  });

  function set(on) {
    document.body.toggleAttribute("data-projector", on);
    fit();
    [enter.hidden, leave.hidden] = [on, !on];
    slides();
    toAddress({ projector: on ? "1" : null });
    scrollTo(0, 0);
  }

  // If the browser refuses full screen, the page is enlarged within the window.
  async function start() {
    set(true);
    await document.documentElement.requestFullscreen?.().catch(() => {});
    /** @type {HTMLElement | null} */ (document.activeElement)?.blur(); // the keys that step belong to no button
  }

  function end() {
    set(false);
    if (document.fullscreenElement) document.exitFullscreen();
    enter.focus();
  }

  enter.addEventListener("click", start);
  leave.addEventListener("click", end);
  addEventListener("resize", fit);
  fit();
  // In full screen the browser handles Esc itself and only reports that full screen ended.
  addEventListener("fullscreenchange", () => isOn() && !document.fullscreenElement && end());
  addEventListener("keydown", (event) => event.key === "Escape" && isOn() && !document.fullscreenElement && end());
  const value = new URLSearchParams(location.search).get("projector");
  if (value === "1") set(true);
  else if (value !== null) tell([misfit("projector", value, "1")]);
}
