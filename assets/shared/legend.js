// A figure's legend in HTML. It wraps on a phone, and each entry shows or hides its group of traces.

import { svg } from "./drawing.js";
import { make, makeButton } from "./view.js";

const DASHES = {
  solid: "",
  dash: "5 3",
  dot: "1.5 3",
  dashdot: "6 2 1.5 2",
  longdash: "9 3",
  longdashdot: "9 2 1.5 2",
};
const SHAPES = {
  circle: "M6 0A6 6 0 1 1-6 0A6 6 0 1 1 6 0Z",
  square: "M-5-5H5V5H-5Z",
  diamond: "M0-7L7 0L0 7L-7 0Z",
  "triangle-up": "M0-7L6.5 5H-6.5Z",
  x: "M-6-4L-4-6 0-2 4-6 6-4 2 0 6 4 4 6 0 2-4 6-6 4-2 0Z",
  cross: "M-2-6H2V-2H6V2H2V6H-2V2H-6V-2H-2Z",
  star: "M0-7L1.8-2.3 6.7-2.2 2.9.9 4.1 5.7 0 3-4.1 5.7-2.9.9-6.7-2.2-1.8-2.3Z",
};

// The symbol of a group: its line with its mark.
function swatch(traces) {
  const picture = svg("svg", { viewBox: "-16 -8 32 16", width: 32, height: 16, "aria-hidden": "true" });
  for (const { line, mode = "" } of traces) {
    if (!mode.includes("lines")) continue;
    const stroke = { stroke: line.color, "stroke-width": 2.5, "stroke-dasharray": DASHES[line.dash] ?? "" };
    picture.append(svg("path", { d: "M-16 0H16", fill: "none", ...stroke }));
  }
  for (const { type, marker, mode = "" } of traces) {
    if (mode.includes("markers")) picture.append(svg("path", { d: SHAPES[marker.symbol], fill: marker.color }));
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
    const shown = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(shown));
    for (const trace of members) trace.visible = shown;
    redraw();
  });
  button.title = "Show or hide this curve";
  button.setAttribute("aria-pressed", String(members.every(({ visible }) => visible !== false)));
  return button;
}
