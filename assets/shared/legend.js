// A figure's legend in HTML. It wraps on a phone, and each entry shows or hides its group of traces.

import { SHAPES, svg } from "./drawing.js";
import { make, makeButton } from "./view.js";

const DASHES = {
  solid: "",
  dash: "5 3",
  dot: "1.5 3",
  dashdot: "6 2 1.5 2",
  longdash: "9 3",
  longdashdot: "9 2 1.5 2",
};
const SIGNS = { "triangle-up": "up", x: "cross", cross: "cross" }; // plotly's symbols that have other names here

// The symbol of a group: its line with its mark.
function swatch(traces) {
  const picture = svg("svg", { viewBox: "-16 -8 32 16", width: 32, height: 16, "aria-hidden": "true" });
  for (const { line, mode = "" } of traces) {
    if (!mode.includes("lines")) continue;
    const stroke = { stroke: line.color, "stroke-width": 2.5, "stroke-dasharray": DASHES[line.dash] ?? "" };
    picture.append(svg("path", { d: "M-16 0H16", fill: "none", ...stroke }));
  }
  for (const { type, marker, mode = "" } of traces) {
    const turn = marker?.symbol === "cross" ? { transform: "rotate(45)" } : {};
    const sign = () => SHAPES[SIGNS[marker.symbol] ?? marker.symbol](5.5);
    if (mode.includes("markers")) picture.append(svg("path", { d: sign(), fill: marker.color, ...turn }));
    const border = { stroke: marker?.line?.color ?? "none", "stroke-width": 2 };
    if (type === "bar") picture.append(svg("path", { d: "M-14-6H14V6H-14Z", fill: marker.color, ...border }));
  }
  return picture;
}

// Adds one button per group to `element`. A press hides or shows the group and calls `redraw`.
export function legend(element, traces, redraw) {
  const groups = new Map();
  for (const trace of traces) {
    if (trace.legendgroup) groups.set(trace.legendgroup, [...(groups.get(trace.legendgroup) ?? []), trace]);
  }
  element.setAttribute("role", "group");
  element.setAttribute("aria-label", "Curves shown");
  element.replaceChildren(...[...groups].map(([name, members]) => entry(name, members, redraw)));
}

function entry(name, members, redraw) {
  const button = makeButton("curve", [swatch(members), make("span", "", name)], () => {
    const isShown = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(isShown));
    for (const trace of members) trace.visible = isShown;
    redraw();
  });
  button.title = "Show or hide this curve";
  button.setAttribute("aria-pressed", String(members.every(({ visible }) => visible !== false)));
  return button;
}
