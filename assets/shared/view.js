// Tools that views share.

// The functions to call in the next frame: first those that write to the page, then those that measure it.
// When a measurement follows a write, the browser lays out the whole page, so all writes come first.
let [draws, looks] = [new Set(), []];

function frame() {
  const all = [...draws];
  draws = new Set();
  all.forEach(attempt);
  const pending = looks;
  looks = [];
  pending.forEach(attempt);
}

// An error in one view does not affect the others.
function attempt(work) {
  try {
    work();
  } catch (error) {
    reportError(error);
  }
}

// Calls `draw` at most once a frame, with the newest state.
export function onFrame(draw) {
  return () => {
    if (draws.size === 0) requestAnimationFrame(frame);
    draws.add(draw);
  };
}

// Registers a function that measures places and sizes. It is called in the same frame, after all writes.
export const onceDrawn = (look) => looks.push(look);

// The factor by which projector mode and large screens enlarge an element. Its bounding rectangle contains
// this factor; its scrollTop, offsets and styles do not.
/** @param {Element} element */
export const zoomOf = (element) => element.currentCSSZoom ?? 1;

// The factor by which the window's size and a pointer's place exceed the lengths of bounding rectangles: 1, but in
// Safari the factor by which the page is enlarged.
export const windowZoom = () => {
  const root = document.documentElement;
  return "currentCSSZoom" in root ? 1 : Number(getComputedStyle(root).zoom);
};

// The place of a pointer within an element, in the element's own lengths.
/** @param {Element} element @param {MouseEvent} event */
export function placeIn(element, { clientX, clientY }) {
  const { left, top } = element.getBoundingClientRect();
  const [page, own] = [windowZoom(), zoomOf(element)];
  return { x: (clientX / page - left) / own, y: (clientY / page - top) / own };
}

export const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// Writes a text only if it changed, so that the page is not laid out again and screen readers stay silent. A text node
// is changed in place, because a new one would make the browser match `:has` rules again.
export function setText(element, text) {
  if (element.textContent === text) return;
  const [only, other] = element.childNodes;
  if (only instanceof Text && !other && text !== "") only.data = text;
  else element.textContent = text;
}

const passing = new WeakMap();

// Shows a text for some milliseconds, and then the text `after`. A later call for the element replaces an earlier one.
export function setTextFor(element, text, milliseconds, after = "") {
  setText(element, text);
  clearTimeout(passing.get(element));
  passing.set(
    element,
    setTimeout(() => setText(element, after), milliseconds),
  );
}

// Shows a message in its element, which is hidden while there is none.
/** @param {string | null} [message] */
export function setMessage(element, message = "") {
  setText(element, message ?? "");
  element.hidden = !message;
}

// Makes an element with these parts: elements and texts. Empty parts are left out.
/** @param {any[]} parts */
export function make(tag, className = "", ...parts) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...parts.filter((part) => part || part === 0));
  return element;
}

// Makes a button that does not send a form. act: called at each press, if it is given.
/** @param {any} parts an element, a text, or a list of them @param {(event: Event) => void} [act] */
export function makeButton(className, parts = [], act) {
  const button = Object.assign(make("button", className, ...[parts].flat()), { type: "button" });
  if (act) button.addEventListener("click", act);
  return button;
}

// Makes the element beside a slider that shows its value. A screen reader reads the value with the slider, so this
// element is not announced.
export const makeOutput = () => Object.assign(make("output"), { ariaLive: "off" });

// Gives `parent` as many children as there are items, reusing existing ones, and fills each child.
export function fillRows(parent, items, create, fill) {
  while (parent.childElementCount > items.length) parent.lastElementChild.remove();
  while (parent.childElementCount < items.length) parent.append(create());
  let child = parent.firstElementChild;
  items.forEach((item, i) => {
    fill(child, item, i);
    child = child.nextElementSibling;
  });
}

// The first cell of a row, which names the row for screen readers.
export const makeRowName = (...parts) => Object.assign(make("th", "cell", ...parts), { scope: "row" });

const makeCell = (row) => (row.firstElementChild ? make("td") : makeRowName());
export const setCells = (row, texts) => fillRows(row, texts, () => makeCell(row), setText);

// Writes rows of texts into the body of a table. Its rows and cells are reused.
export const fillTable = (body, rows) => fillRows(body, rows, () => make("tr"), setCells);
