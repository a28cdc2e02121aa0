// A plotly figure that stays: data changes, zoom and hover do not.

let loading = null;

// plotly.js comes from this server, once, and only when a figure is about to be drawn.
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
  responsive: false,
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
  toImageButtonOptions: { format: "svg" },
};

function colours(element) {
  const style = getComputedStyle(element);
  return { text: style.color, grid: "rgba(128, 128, 128, 0.25)" };
}

export class Figure {
  // skeleton: traces and layout without data; ready() says whether there is something to
  // draw, fill(skeleton, width) puts it in.
  constructor(element, { skeleton, plotly, ready, fill }) {
    Object.assign(this, { element, skeleton, ready, fill, busy: false, again: false, Plotly: null });
    this.width = element.clientWidth;
    loadPlotly(plotly).then((Plotly) => {
      this.Plotly = Plotly;
      this.draw();
    });
    new ResizeObserver(() => this.resized()).observe(element);
    // Gradio switches themes by a class on the body.
    new MutationObserver(() => this.draw()).observe(document.body, { attributeFilter: ["class"] });
  }

  resized() {
    if (this.element.clientWidth === this.width) return;
    this.width = this.element.clientWidth;
    this.draw();
  }

  // Draws the newest data; while plotly is at work, requests merge into one.
  async draw() {
    if (!this.Plotly || this.width === 0 || !this.ready()) return;
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

  react() {
    const { data, layout } = this.skeleton;
    const { text, grid } = colours(this.element);
    this.fill(this.skeleton, this.width);
    layout.width = this.width;
    layout.font.color = text;
    for (const axis of [layout.xaxis, layout.yaxis]) Object.assign(axis, { gridcolor: grid, linecolor: grid });
    // plotly compares traces by identity: new objects say that something changed.
    const traces = data.map((trace) => ({ ...trace }));
    return this.Plotly.react(this.element, traces, { ...layout }, CONFIG);
  }
}
