// A plotly figure that keeps its zoom and its hover label when its data changes.

import { resolved } from "./colours.js";

let loading = null;

// Loads plotly.js from this server, once, when the first figure is drawn.
function loadPlotly(url) {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = new URL(url, document.baseURI).href;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => reject(new Error(`could not load ${script.src}`));
    document.head.append(script);
  });
  return loading;
}

const CONFIG = {
  displaylogo: false,
  displayModeBar: matchMedia("(hover: hover)").matches ? "hover" : false,
  responsive: false, // the ResizeObserver below draws again
  doubleClick: false, // handled below: plotly would return to an older round's range
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "resetScale2d"],
  toImageButtonOptions: { format: "svg" },
};

const GRID = "rgba(128, 128, 128, 0.25)";

export class Figure {
  options;
  width;
  height;

  // skeleton: traces and layout without data; fill(skeleton, width): adds the data of the selection.
  constructor(element, { skeleton, plotly, fill }) {
    this.element = element;
    this.skeleton = skeleton;
    this.fill = fill;
    this.busy = false;
    this.again = false;
    this.seen = false;
    this.Plotly = null;
    this.zoom = {}; // ranges that the visitor chose, by axis
    this.size();
    loadPlotly(plotly).then((Plotly) => {
      this.Plotly = Plotly;
      this.draw();
    });
    // Nothing is drawn while the figure is off the screen. A missed update is drawn when the figure becomes
    // visible.
    new IntersectionObserver(([entry]) => this.shown(entry.isIntersecting), { rootMargin: "100px" }).observe(element);
    new ResizeObserver(() => this.resized()).observe(element);
    // The page switches the theme by a class of the body.
    new MutationObserver(() => this.draw()).observe(document.body, { attributeFilter: ["class"] });
  }

  shown(seen) {
    this.seen = seen;
    if (seen) this.draw();
  }

  // Whether the element's size has changed. Its height comes from the style sheet or the skeleton.
  size() {
    const { clientWidth: width, clientHeight: height } = this.element;
    const other = width !== this.width || height !== this.height;
    Object.assign(this, { width, height });
    return other;
  }

  resized() {
    if (this.size()) this.draw();
  }

  // Draws the newest data. Requests during a drawing are merged into one.
  async draw() {
    if (!this.Plotly || this.width === 0 || !this.seen) return;
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    try {
      do {
        this.again = false;
        await this.react();
      } while (this.again);
    } finally {
      this.busy = false;
    }
  }

  // Stores the ranges that the visitor chose by zooming. Plotly itself (uirevision) forgets them when the
  // range of the data changes.
  listen() {
    this.element.on("plotly_relayout", (change) => {
      for (const axis of ["xaxis", "yaxis"]) {
        const [from, to] = [change[`${axis}.range[0]`], change[`${axis}.range[1]`]];
        if (from !== undefined && to !== undefined) this.zoom[axis] = [from, to];
      }
    });
    this.element.on("plotly_doubleclick", () => this.zoomOut());
  }

  zoomOut() {
    this.zoom = {};
    this.draw();
  }

  config() {
    const icon = this.Plotly.Icons.home;
    const button = { name: "zoomOut", title: "Show everything", icon, click: () => this.zoomOut() };
    return { ...CONFIG, modeBarButtonsToAdd: [button] };
  }

  async react() {
    const { data, layout } = this.skeleton;
    const style = getComputedStyle(this.element);
    const colourOf = (name) => style.getPropertyValue(name).trim();
    this.fill(this.skeleton, this.width);
    layout.width = this.width;
    if (this.height > 0) layout.height = this.height;
    Object.assign(layout.font, { color: style.color, family: style.fontFamily });
    for (const axis of [layout.xaxis, layout.yaxis]) Object.assign(axis, { gridcolor: GRID, linecolor: GRID });
    // plotly compares traces by identity, so changed traces are new objects.
    const [traces, looks] = [data, layout].map((part) => resolved(part, colourOf));
    const copy = structuredClone(looks); // the skeleton keeps its own ranges, to which zooming out returns
    for (const [axis, range] of Object.entries(this.zoom)) copy[axis].range = [...range];
    await this.Plotly.react(this.element, traces, copy, (this.options ??= this.config()));
    if (!this.listening) this.listen();
    this.listening = true;
  }
}
