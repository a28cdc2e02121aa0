// The drawer with everything that can be set besides prompt and method. It opens without scripts; Escape closes it.

import { make } from "../shared/view.js";
import { setPrompt } from "./fields.js";

export function mountDrawer(element) {
  mountMethods();
  const box = element.querySelector("input");
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !box.checked || event.defaultPrevented) return;
    box.checked = false;
    box.focus();
  });
}

// Prompts to try, under the field.
export function mountPrompts(element) {
  element.addEventListener("click", ({ target }) => {
    const { prompt } = target.closest("button")?.dataset ?? {};
    if (prompt) setPrompt(prompt);
  });
}

// Three methods are in sight; a button brings the others, and so does one of them that is chosen.
function mountMethods() {
  const method = document.getElementById("method");
  const row = method?.querySelector(".wrap:has(label)");
  if (!row || row.querySelector(".more")) return;
  const more = Object.assign(make("button", "more", "more"), { type: "button" });
  row.append(more);
  const all = () => method.classList.add("all");
  more.addEventListener("click", () => {
    all();
    /** @type {HTMLElement} */ (method.querySelectorAll("label input")[3]).focus();
  });
  const look = () => [...row.querySelectorAll("label")].slice(3).some((label) => label.matches(".selected")) && all();
  new MutationObserver(look).observe(row, { attributeFilter: ["class"], subtree: true });
  look();
}
