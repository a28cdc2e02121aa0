// The row of tabs. The address names the open tab, `/?tab=race`; without a name the first one is open. The row is one
// stop of the Tab key; the arrow keys, Home and End move within it.

import { observable } from "../shared/observable.js";

const STEPS = { ArrowRight: 1, ArrowLeft: -1 };
const row = () => /** @type {HTMLElement[]} */ ([...document.querySelectorAll('#tabs > .tab-wrapper [role="tab"]')]);
const opened = observable();

// Calls `listener` with the content of a tab each time that it is opened.
export const onTab = opened.subscribe;
export const openTab = () => document.querySelector("#tabs > [role=tabpanel]:not([hidden])");

// Opens the tab of this name; an unknown name opens the first one.
export function showTab(name) {
  const tabs = row();
  const wanted = tabs.find(({ dataset }) => dataset.tabId === name) ?? tabs[0];
  for (const tab of tabs) {
    const isOpen = tab === wanted;
    tab.setAttribute("aria-selected", String(isOpen));
    tab.tabIndex = isOpen ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !isOpen;
  }
  if (wanted) opened.notify(openTab());
}

// The tab that an address names. The codecs were once part of the experiments' tab, and an old address of them opens
// their tab.
function named(address) {
  const asked = new URLSearchParams(address);
  const isOfCodecs = [...asked.keys()].some((name) => name.startsWith("codec."));
  return asked.get("tab") === "experiments" && isOfCodecs ? "codecs" : asked.get("tab");
}

// Opens a tab and writes its name into the address, so that the browser's Back returns to the one before.
export function goToTab(name) {
  showTab(name);
  const [first] = row();
  const url = new URL(location.href);
  if (name === first.dataset.tabId) url.searchParams.delete("tab");
  else url.searchParams.set("tab", name);
  if (url.href !== location.href) history.pushState(history.state, "", url);
}

export function mountTabs() {
  for (const tab of row()) tab.addEventListener("click", () => goToTab(tab.dataset.tabId));
  document.querySelector("#tabs > .tab-wrapper")?.addEventListener("keydown", (event) => {
    const { key, target } = /** @type {KeyboardEvent} */ (event);
    const all = row();
    const at = all.indexOf(/** @type {HTMLElement} */ (target));
    const to = key === "Home" ? 0 : key === "End" ? all.length - 1 : at + STEPS[key];
    if (at < 0 || !(to >= 0 && to < all.length)) return;
    event.preventDefault();
    event.stopPropagation();
    all[to].click();
    all[to].focus();
  });
  addEventListener("popstate", () => showTab(named(location.search)));
  showTab(named(location.search));
}
