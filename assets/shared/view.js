// What views have in common.

// What the next frame writes, and what then reads where things stand. Between writing and reading the browser lays
// out all of the page, so all is written first.
let [draws, looks] = [new Set(), []];

function frame() {
  const all = [...draws];
  draws = new Set();
  all.forEach(attempt);
  const then = looks;
  looks = [];
  then.forEach(attempt);
}

// One view that fails leaves the others alone.
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

// For what a draw wants to know of places and sizes: called in the same frame, when everything is written.
export const onceDrawn = (look) => looks.push(look);

// Writes only what changed: the browser then lays out nothing, and screen readers stay quiet. A text that stays a text
// is changed in place: a new node would have the browser look up what is styled by its descendants (`:has`).
export function setText(element, text) {
  if (element.textContent === text) return;
  const [only, other] = element.childNodes;
  if (only instanceof Text && !other && text !== "") only.data = text;
  else element.textContent = text;
}

export function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

// Gives `parent` exactly as many children as there are items and fills each one.
export function fillRows(parent, items, create, fill) {
  while (parent.children.length > items.length) parent.lastElementChild.remove();
  while (parent.children.length < items.length) parent.append(create());
  items.forEach((item, i) => fill(parent.children[i], item, i));
}

// A table row whose cells are replaced in place.
export function cells(count) {
  const row = make("tr");
  for (let i = 0; i < count; i++) row.append(make("td"));
  return row;
}

export function setCells(row, texts) {
  texts.forEach((text, i) => setText(row.children[i], text));
}
