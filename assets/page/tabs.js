// The places of the page and their views, as rows of tabs. The address names the open view, `/?tab=race`, unless it is
// the first. The Tab key reaches a row once; the arrow keys, Home and End move within it.

import { observable } from "../shared/observable.js";
import { toAddress } from "./setup_fields.js";

const STEPS = { ArrowRight: 1, ArrowLeft: -1 };
const tabs = () => /** @type {HTMLElement[]} */ ([...document.querySelectorAll('#tabs > .tab-wrapper [role="tab"]')]);
const rows = () =>
  /** @type {HTMLElement[]} */ ([...document.querySelectorAll('#tabs > .tab-wrapper > [role="tablist"]')]);
const viewsOf = ({ dataset }) => dataset.views.split(" ");
const views = () => /** @type {HTMLElement[]} */ ([...document.querySelectorAll("#tabs > [role=tabpanel]")]);
const idOf = (view) => view.id.replace("tab-", "");
const openings = observable();

// Calls `listener` with the content of a view each time that it is opened.
export const onTab = openings.subscribe;
// The open view; the whole page if a panel is served alone.
export const openTab = () => views().find(({ hidden }) => !hidden) ?? document.querySelector("main");

// Calls `act` now and at each opening of a view, if it contains the element. Returns the function that does this.
export function whenOpen(element, act) {
  const look = () => openTab()?.contains(element) && act();
  onTab(look);
  look();
  return look;
}

// Opens the view of this name, or the first one. A place opens later at the view that it showed last.
export function showTab(name) {
  const all = views();
  const target = all.find((view) => idOf(view) === name) ?? all[0];
  if (!target) return; // the panel may be served alone
  for (const view of all) view.hidden = view !== target;
  for (const tab of tabs()) {
    const isOpen = viewsOf(tab).includes(idOf(target));
    tab.setAttribute("aria-selected", String(isOpen));
    tab.tabIndex = isOpen ? 0 : -1;
    if (!isOpen) continue;
    tab.dataset.opens = idOf(target);
    tab.setAttribute("aria-controls", target.id);
  }
  const { textContent: title } = document.getElementById(target.getAttribute("aria-labelledby"));
  // later, because `goToTab` first adds the entry of the history that gets this title
  queueMicrotask(() => (document.title = `${title} · Speculative decoding`));
  for (const row of rows().slice(1)) row.hidden = !row.querySelector('[aria-selected="true"]');
  openings.notify(target);
}

// The view that an address names. Old addresses of codecs, which were part of the experiments, open today's view.
function tabOf(address) {
  const query = new URLSearchParams(address);
  const isOfCodecs = [...query.keys()].some((name) => name.startsWith("codec."));
  return query.get("tab") === "experiments" && isOfCodecs ? "codecs" : query.get("tab");
}

// Opens a view and writes its name into the address, so that the browser's Back returns to the view before.
export function goToTab(name) {
  if (views().length === 0) return; // the panel may be served alone
  const old = openTab();
  showTab(name);
  if (openTab() !== old) scrollTo(0, 0); // a link far down on a phone opens the top of the other view
  toAddress({ tab: name === idOf(views()[0]) ? null : name }, true);
}

export function mountTabs() {
  for (const tab of tabs()) tab.addEventListener("click", () => goToTab(tab.dataset.opens));
  for (const row of rows())
    row.addEventListener("keydown", (event) => {
      const { key, target } = event;
      const all = /** @type {HTMLElement[]} */ ([...row.children]);
      const index = all.indexOf(/** @type {HTMLElement} */ (target));
      const next = key === "Home" ? 0 : key === "End" ? all.length - 1 : index + STEPS[key];
      if (index < 0 || !(next >= 0 && next < all.length)) return;
      event.preventDefault();
      event.stopPropagation();
      all[next].click();
      all[next].focus();
    });
  addEventListener("popstate", () => showTab(tabOf(location.search)));
  showTab(tabOf(location.search));
}
