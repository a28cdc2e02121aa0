// The drawer with everything that can be set besides prompt and method. It opens without scripts; Escape closes it.

export function mountDrawer(element) {
  const box = element.querySelector("input");
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !box.checked || event.defaultPrevented) return;
    box.checked = false;
    box.focus();
  });
}
