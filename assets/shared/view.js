// What views have in common.

// Calls `draw` at most once a frame, with the newest state.
export function onFrame(draw) {
  let planned = false;
  return () => {
    if (planned) return;
    planned = true;
    requestAnimationFrame(() => {
      planned = false;
      draw();
    });
  };
}

// Writes only what changed: the browser then lays out nothing, and screen readers stay quiet.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
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
