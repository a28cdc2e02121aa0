// A plotly figure that keeps its zoom and its hover label when its data changes.

import { resolved } from "./colours.js";
import { Drawing } from "./drawing.js";
import { legend } from "./legend.js";
import { make } from "./view.js";

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
  responsive: false, // `Drawing` draws again
  doubleClick: false, // handled below: plotly would return to an older round's range
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "resetScale2d"],
  toImageButtonOptions: { format: "svg" },
};

const DARK = matchMedia("(prefers-color-scheme: dark)");

const GRID = "rgba(128, 128, 128, 0.25)";

export class Figure {
  options;
  Plotly = null;
  zoom = {}; // ranges that the visitor chose, by axis
  busy = false;
  again = false;

  // skeleton: traces and layout without data; fill(skeleton) adds the data. keys: the legend's element, if traces stay.
  constructor(element, { skeleton, plotly, fill, keys = null }) {
    this.element = element;
    this.graph = element.appendChild(make("div", "graph"));
    this.probe = element.appendChild(make("i"));
    this.probe.hidden = true;
    this.probe.style.forcedColorAdjust = "none"; // as the drawings of the page keep their colours
    this.skeleton = skeleton;
    this.fill = fill;
    this.drawing = new Drawing(element, () => this.drawNow());
    if (keys) legend(keys, skeleton.data, () => this.draw());
    loadPlotly(plotly).then((Plotly) => {
      this.Plotly = Plotly;
      this.draw();
    });
    DARK.addEventListener("change", () => this.draw());
  }

  draw() {
    this.drawing.draw();
  }

  // Draws the newest data. Requests during a drawing are merged into one.
  async drawNow() {
    this.again = true;
    if (!this.Plotly || this.busy) return;
    this.busy = true;
    try {
      while (this.again) {
        this.again = false;
        await this.react();
      }
    } finally {
      this.busy = false;
    }
  }

  // Stores the ranges that the visitor zoomed to. Plotly (uirevision) forgets them when the range of the data changes.
  listen() {
    this.graph.on("plotly_relayout", (change) => {
      for (const axis of ["xaxis", "yaxis"]) {
        const [from, to] = [change[`${axis}.range[0]`], change[`${axis}.range[1]`]];
        if (from !== undefined && to !== undefined) this.zoom[axis] = [from, to];
      }
    });
    this.graph.on("plotly_doubleclick", () => this.zoomOut());
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
    // Plotly knows no names, so an element without content gets each colour, and the browser says what it is.
    const probed = getComputedStyle(this.probe);
    const colourOf = (name) => {
      this.probe.style.color = `var(${name})`;
      return probed.color;
    };
    const { width, height } = this.drawing; // the height comes from the style sheet or the skeleton
    this.fill(this.skeleton);
    layout.width = width;
    if (height > 0) layout.height = height;
    Object.assign(layout.font, { color: style.color, family: style.fontFamily });
    for (const axis of [layout.xaxis, layout.yaxis]) Object.assign(axis, { gridcolor: GRID, linecolor: GRID });
    // plotly compares traces by identity, so changed traces are new objects.
    const [traces, looks] = [data, layout].map((part) => resolved(part, colourOf));
    const copy = structuredClone(looks); // the skeleton keeps its own ranges, to which zooming out returns
    for (const [axis, range] of Object.entries(this.zoom)) copy[axis].range = [...range];
    await this.Plotly.react(this.graph, traces, copy, (this.options ??= this.config()));
    if (!this.listening) this.listen();
    this.listening = true;
  }
}
