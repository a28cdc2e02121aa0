// The drawer with everything that can be set besides prompt and method; Escape closes it.

export function mountDrawer(element) {
  const box = element.querySelector("input");
  // on the body: with `:has` every change of the page would be looked through for the box
  const show = () => document.body.toggleAttribute("data-settings", box.checked);
  box.addEventListener("change", show);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !box.checked || event.defaultPrevented) return;
    box.checked = false;
    show();
    box.focus();
  });
}
