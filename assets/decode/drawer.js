// The drawer with all settings except prompt and method. It opens without scripts; Escape closes it.

import { make } from "../shared/view.js";

export function mountDrawer(element) {
  mountMethods();
  const box = element.querySelector("input");
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !box.checked || event.defaultPrevented) return;
    box.checked = false;
    box.focus();
  });
}

// Shows three methods and a button for the others. A chosen hidden method shows all of them too. If Gradio draws the
// row again, the button is added again.
function mountMethods() {
  const method = document.getElementById("method");
  if (!method) return void setTimeout(mountMethods, 200);
  const more = Object.assign(make("button", "more", "more"), { type: "button" });
  more.addEventListener("click", () => {
    method.classList.add("all");
    /** @type {HTMLElement} */ (method.querySelectorAll("label input")[3]).focus();
  });
  const look = () => {
    const labels = [...method.querySelectorAll("label:has(input)")];
    const row = labels[0]?.parentElement;
    if (row && more.parentElement !== row) row.append(more);
    if (labels.slice(3).some((label) => label.matches(".selected"))) method.classList.add("all");
  };
  new MutationObserver(look).observe(method, { attributeFilter: ["class"], childList: true, subtree: true });
  look();
}
