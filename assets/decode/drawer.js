// Two parts of the page that can be opened. “More” shows the controls that a newcomer does not need. The
// drawer shows all settings except prompt and method; it opens without scripts, and Escape closes it.

import { onFields } from "../page/setup.js";
import { keep, keptText } from "../shared/memory.js";
import { makeButton } from "../shared/view.js";

const MORE = "specdec.more"; // stored while the visitor has all controls opened

export function mountDrawer(element) {
  mountMethods();
  mountMore(element.querySelector(".open-more input"));
  const box = element.querySelector(".open-settings input");
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !box.checked || event.defaultPrevented) return;
    box.checked = false;
    box.focus();
  });
}

function mountMore(box) {
  const show = () => document.getElementById("page").classList.toggle("simple", !box.checked);
  box.checked = keptText(MORE) !== null;
  box.addEventListener("change", () => {
    keep(MORE, box.checked ? "" : null);
    show();
  });
  show();
}

// Shows three methods and a button for the others. If a hidden method is chosen, all methods are shown.
function mountMethods() {
  const method = document.getElementById("method");
  const choices = /** @type {HTMLInputElement[]} */ ([...method.querySelectorAll("input")]);
  const more = makeButton("more", "more", () => {
    method.classList.add("all");
    choices[3].focus();
  });
  choices[0].closest("label").parentElement.append(more);
  onFields(() => choices.slice(3).some(({ checked }) => checked) && method.classList.add("all"));
}
