// The drawer with all settings except prompt and method. It opens without scripts; Escape closes it.

import { onFields } from "../page/setup.js";
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

// Shows three methods and a button for the others. A chosen hidden method shows all of them too.
function mountMethods() {
  const method = document.getElementById("method");
  const choices = /** @type {HTMLInputElement[]} */ ([...method.querySelectorAll("input")]);
  const more = Object.assign(make("button", "more", "more"), { type: "button" });
  more.addEventListener("click", () => {
    method.classList.add("all");
    choices[3].focus();
  });
  choices[0].closest("label").parentElement.append(more);
  onFields(() => choices.slice(3).some(({ checked }) => checked) && method.classList.add("all"));
}
