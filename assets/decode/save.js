// What a visitor takes away: the trace, a page that plays it offline, the drawings as pictures.

import { state } from "../shared/store.js";
import { fromState, parse } from "../shared/trace.js";
import { collected, nameOf, withNames } from "./modules.js";

const templates = new Map(); // the panels as they were before anything was drawn in them

export function remember(name, element) {
  if (!templates.has(name)) templates.set(name, element.innerHTML);
}

const SHEETS = [
  ...["../shared/colours.css", "../shared/controls.css", "../page/page.css"],
  ...["./stage.css", "./text.css", "./figures.css", "./player.css", "./statistics.css", "./phone.css", "./offline.css"],
];
const here = (path) => new URL(path, import.meta.url).href;

async function fetched(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address} could not be read from the server`);
  return response.text();
}

export async function saveAs(what) {
  const name = `speculative-${state.setup.method}-seed-${state.setup.seed}`;
  const [panel, kind] = what.split("-");
  if (what === "json") return download(new Blob([traceText()], { type: "application/json" }), `${name}.json`);
  if (what === "html") return download(new Blob([await offlinePage()], { type: "text/html" }), `${name}.html`);
  const drawing = standalone(document.querySelector(`#${panel} svg.drawing`));
  const blob = kind === "svg" ? svgBlob(drawing) : await png(drawing);
  return download(blob, `${name}-round-${state.selected.round + 1}-${panel}.${kind}`);
}

function traceText() {
  const text = JSON.stringify(fromState(state));
  parse(text); // what is saved can be opened again
  return text;
}

function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// One file with everything in it. Modules become data: addresses of an import map, so that nothing is fetched.
async function offlinePage() {
  const modules = await collected(here("./offline.js"), fetched);
  const root = here("../");
  const imports = [...modules].map(([address, source]) => [
    nameOf(address, root),
    `data:text/javascript;charset=utf-8,${encodeURIComponent(withNames(source, address, root))}`,
  ]);
  const styles = await Promise.all(SHEETS.map(here).map(fetched));
  const panel = (name) => `<div id="${name}" class="block panel">${templates.get(name)}</div>`;
  // A script element ends at the first "</", whatever it holds: model text must not end it.
  const harmless = (text) => text.replaceAll("<", "\\u003c");
  const data = harmless(traceText());
  const baseline = harmless(JSON.stringify(state.baseline));
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>A recorded run of speculative decoding</title>
<style>${styles.join("\n")}</style>
<script type="importmap">${JSON.stringify({ imports: Object.fromEntries(imports) })}</script>
</head><body><div class="gradio-container"><main class="contain">
<header class="introduction"><h1>Speculative decoding, a recorded run</h1><p class="about"></p></header>
<div id="page">
${panel("text")}
<div id="figures">${panel("tree")}${panel("race")}</div>
${panel("stepper")}
${panel("statistics")}
</div>
</main></div>
<script type="application/json" id="trace">${data}</script>
<script type="application/json" id="baseline">${baseline}</script>
<script type="module">import { start } from "decode/offline.js"; start();</script>
</body></html>
`;
}

const LOOKS = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-linejoin",
  "paint-order",
  "font-family",
  "font-size",
  "font-weight",
  "display",
  "opacity",
];

// A copy with its looks written into it, on the page's background.
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
  const background = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  background.setAttribute("width", "100%");
  background.setAttribute("height", "100%");
  background.setAttribute("fill", getComputedStyle(drawing.closest(".block.panel")).backgroundColor);
  copy.prepend(background);
  return { copy, width: drawing.clientWidth, height: drawing.clientHeight };
}

const svgBlob = ({ copy }) => new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });

// Three pixels a point: sharp on a projector and in print.
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
