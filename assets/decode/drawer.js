// The drawer with everything that can be set besides prompt and method.

export function mountDrawer(element) {
  const button = element.querySelector("button");
  const set = (open) => {
    document.body.toggleAttribute("data-settings", open);
    button.setAttribute("aria-expanded", String(open));
  };
  button.addEventListener("click", () => set(button.getAttribute("aria-expanded") !== "true"));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !document.body.hasAttribute("data-settings") || event.defaultPrevented) return;
    set(false);
    button.focus();
  });
}
