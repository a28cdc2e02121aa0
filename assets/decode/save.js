// The files that a visitor can save: the trace, an offline page, and the drawings as pictures.

import { svg } from "../shared/drawing.js";
import { state } from "../shared/store.js";
import { fromState, parse } from "../shared/trace.js";
import { make } from "../shared/view.js";

// player: the address of the player's page without a run.
export async function saveAs(format, player) {
  const name = `speculative-${state.setup.method}-seed-${state.setup.seed}`;
  const [panel, kind] = format.split("-");
  if (format === "json") return download(new Blob([traceText()], { type: "application/json" }), `${name}.json`);
  if (format === "html") return download(new Blob([await offlinePage(player)], { type: "text/html" }), `${name}.html`);
  const drawing = standalone(document.querySelector(`#${panel} svg.drawing`));
  const blob = kind === "svg" ? svgBlob(drawing) : await png(drawing);
  return download(blob, `${name}-round-${state.selected.round + 1}-${panel}.${kind}`);
}

function traceText() {
  const text = JSON.stringify(fromState(state));
  parse(text); // checks that the saved file can be opened again
  return text;
}

function download(blob, name) {
  const link = Object.assign(make("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// Builds a single file, as specdec/notebook/player.py does.
async function offlinePage(player) {
  const response = await fetch(new URL(player, document.baseURI).href);
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  // A script element ends at the first "</", so model text with "</" is escaped.
  const start = 'id="trace">';
  return (await response.text()).replace(start, () => start + traceText().replaceAll("<", "\\u003c"));
}

const LOOKS = [
  ...["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "paint-order", "opacity", "display"],
  ...["font-family", "font-size", "font-weight", "text-decoration"],
];

// A copy of a drawing that includes its styles, on the page's background.
function standalone(drawing) {
  if (!drawing) throw new Error("there is no figure yet");
  const copy = drawing.cloneNode(true);
  const originals = [drawing, ...drawing.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, i) => {
    const style = getComputedStyle(originals[i]);
    for (const name of LOOKS) element.style.setProperty(name, style.getPropertyValue(name));
    element.removeAttribute("class");
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("viewBox", `0 0 ${drawing.clientWidth} ${drawing.clientHeight}`);
  const { backgroundColor: fill } = getComputedStyle(drawing.closest(".block.panel"));
  copy.prepend(svg("rect", { width: "100%", height: "100%", fill }));
  return { copy, width: drawing.clientWidth, height: drawing.clientHeight };
}

const svgBlob = ({ copy }) => new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });

// Three pixels per point are sharp on a projector and in print.
async function png(drawing) {
  const image = new Image();
  image.src = URL.createObjectURL(svgBlob(drawing));
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [3 * drawing.width, 3 * drawing.height];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
