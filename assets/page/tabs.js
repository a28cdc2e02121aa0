// The row of tabs is one stop of the Tab key. The arrow keys, Home and End move within it.

const STEPS = { ArrowRight: 1, ArrowLeft: -1 };

export function mountTabs() {
  const row = /** @type {HTMLElement | null} */ (document.querySelector('#tabs .tab-container[role="tablist"]'));
  if (!row) return;
  const tabs = () => /** @type {HTMLElement[]} */ ([...row.querySelectorAll('[role="tab"]')]);
  const isOpen = (tab) => tab.getAttribute("aria-selected") === "true";
  const mark = () => {
    for (const tab of tabs()) tab.tabIndex = isOpen(tab) ? 0 : -1;
  };
  row.addEventListener(
    "keydown",
    (event) => {
      const all = tabs();
      const at = all.indexOf(/** @type {HTMLElement} */ (event.target));
      const step = STEPS[event.key];
      const to = event.key === "Home" ? 0 : event.key === "End" ? all.length - 1 : at + step;
      if (at < 0 || !(to >= 0 && to < all.length)) return;
      event.preventDefault();
      event.stopPropagation();
      all[to].click();
      all[to].focus();
    },
    true,
  );
  new MutationObserver(mark).observe(row, { attributeFilter: ["aria-selected"], subtree: true, childList: true });
  mark();
}
