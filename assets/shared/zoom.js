// Zoom and pan of a drawing: wheel with Ctrl, pinch, drag and buttons. Marks and labels keep their size.

import { placeIn } from "./view.js";

const MOST = 24;

export class Zoom {
  constructor(element, onChange) {
    this.element = element;
    this.onChange = onChange;
    this.scale = 1;
    this.x = 0;
    this.y = 0;
    this.pointers = new Map();
    element.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    element.addEventListener("pointerdown", (event) => this.pointers.set(event.pointerId, placeIn(element, event)));
    element.addEventListener("pointermove", (event) => this.moved(event));
    for (const name of ["pointerup", "pointercancel", "pointerleave"]) {
      element.addEventListener(name, (event) => this.pointers.delete(event.pointerId));
    }
    element.addEventListener("dblclick", () => this.reset());
    const buttons = element.parentElement.querySelector(".zoom");
    buttons?.addEventListener("click", (event) => this.pressed(event.target.closest("button")?.dataset.zoom));
  }

  apply(x, y) {
    return { x: x * this.scale + this.x, y: y * this.scale + this.y };
  }

  pressed(name) {
    const { offsetWidth: width, offsetHeight: height } = this.element;
    if (name === "out") this.by(1 / 1.6, width / 2, height / 2);
    if (name === "in") this.by(1.6, width / 2, height / 2);
    if (name === "reset") this.reset();
  }

  // The plain wheel scrolls the page; with Ctrl it zooms. A pinch on a touchpad sends the same event.
  wheel(event) {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const { x, y } = placeIn(this.element, event);
    this.by(Math.exp(-event.deltaY / 200), x, y);
  }

  moved(event) {
    const old = this.pointers.get(event.pointerId);
    if (!old) return;
    const now = placeIn(this.element, event);
    this.pointers.set(event.pointerId, now);
    if (this.pointers.size === 2) this.pinched(old, now, event.pointerId);
    else if (this.scale > 1) this.move(now.x - old.x, now.y - old.y);
  }

  pinched(old, now, id) {
    const [other] = [...this.pointers].filter(([key]) => key !== id).map(([, place]) => place);
    const distance = (place) => Math.hypot(place.x - other.x, place.y - other.y);
    this.by(distance(now) / Math.max(distance(old), 1), (now.x + other.x) / 2, (now.y + other.y) / 2);
  }

  by(factor, x, y) {
    const scale = Math.min(Math.max(this.scale * factor, 1), MOST);
    const change = scale / this.scale;
    Object.assign(this, { scale, x: x - (x - this.x) * change, y: y - (y - this.y) * change });
    this.move(0, 0);
  }

  // Stops at the drawing's own borders.
  move(dx, dy) {
    const { clientWidth: width, clientHeight: height } = this.element;
    this.x = Math.min(0, Math.max(this.x + dx, width * (1 - this.scale)));
    this.y = Math.min(0, Math.max(this.y + dy, height * (1 - this.scale)));
    this.element.classList.toggle("zoomed", this.scale > 1);
    this.onChange();
  }

  reset() {
    Object.assign(this, { scale: 1, x: 0, y: 0 });
    this.move(0, 0);
  }
}
