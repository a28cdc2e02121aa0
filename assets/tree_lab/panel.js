// The tree laboratory: acceptance to set, the growth of the best tree, and tokens per call of all trees.

import { offer } from "../page/setup.js";
import { Drawing } from "../shared/drawing.js";
import { Figure } from "../shared/figure.js";
import { Asker, presetMenu } from "../shared/lab_view.js";
import { digits, share } from "../shared/labels.js";
import { state as run, subscribe } from "../shared/store.js";
import { sum, Totals } from "../shared/totals.js";
import { fillRows, fillTable, make, makeOutput, onFrame, reducedMotion, setText } from "../shared/view.js";
import { Zoom } from "../shared/zoom.js";
import { Growth, gained, nodesOf } from "./growth.js";
import { setupOf } from "./setup.js";

const TAIL = 24; // number of child indices beyond those with a slider
const SMALLEST = 1e-7;
const RESULTS = ".verdict, .canvas, .inspected, .how, .entropy, .plot, .gained, details";

// R for each child index: the rates of the sliders, then rates that fall by a fixed factor until they are negligible.
export function acceptance(rates, tail) {
  const later = Array.from({ length: TAIL }, (_, i) => rates.at(-1) * tail ** (i + 1));
  return [...rates, ...later.filter((rate) => rate > SMALLEST)];
}

// The highest rate of slider i such that all rates sum to at most 1.
export function room(rates, tail, i) {
  const total = sum(acceptance(rates, tail));
  const own = i === rates.length - 1 ? sum(acceptance([rates[i]], tail)) : rates[i];
  const factor = i === rates.length - 1 ? sum(acceptance([1], tail)) : 1;
  return Math.max(0, (1 - total + own) / factor);
}

// R as measured in a run: by child index, the accepted share of verified tokens, scaled to a sum of at most 1.
function fromRounds(rounds, count) {
  const { indices } = new Totals().addAll(rounds);
  const rates = Array.from({ length: count }, (_, i) => (indices[i] ? indices[i].accepted / indices[i].verified : 0));
  const total = Math.max(1, sum(rates));
  return rates.map((rate) => rate / total);
}

// The curves of the topologies, by name.
const curvesOf = (data) => data.filter(({ meta }) => meta);

function fillCurve({ data, layout }, result, k) {
  const most = result.tokens.optimal.length - 1;
  const ks = Array.from({ length: most }, (_, i) => i + 1);
  for (const curve of curvesOf(data)) Object.assign(curve, { x: ks, y: result.tokens[curve.meta].slice(1) });
  [1, 2].forEach((column, i) => {
    const rows = result.bounds.filter((row) => row[column] !== null);
    Object.assign(data[4 + i], { x: rows.map(([x]) => x), y: rows.map((row) => row[column]) });
  });
  const lemma = result.bounds.at(-1)[1] ?? 0;
  const top = 1.12 * Math.max(result.tokens.optimal[most], Math.min(lemma, 3 * result.tokens.optimal[most]));
  Object.assign(data[6], { x: [k, k], y: [0, top] });
  const best = result.tokens.optimal[k];
  Object.assign(data[7], { x: [k], y: [best], hovertext: [`optimal tree, k = ${k}: ${digits(best)}`] });
  layout.xaxis.range = [-0.03, Math.log10(most) + 0.05];
  layout.yaxis.range = [0, top];
}

function rateRow() {
  const slider = Object.assign(make("input"), { type: "range", min: 0, max: 1, step: "any" });
  return make("label", "rate", make("span"), slider, makeOutput());
}

class TreeLab {
  constructor(element, props, server) {
    this.server = server;
    this.presets = props.presets;
    this.preset = null;
    this.rates = [];
    this.tail = 0.5;
    this.k = props.k;
    this.most = props.most;
    this.result = null;
    this.nodes = null;
    this.find = (selector) => element.querySelector(selector);
    this.asker = new Asker(this.find(".lab-error"), element.querySelectorAll(RESULTS));
    this.trees = new Asker(this.find(".lab-error"));
    this.canvas = this.find(".canvas");
    this.zoom = new Zoom(this.canvas, () => this.redraw());
    this.growth = new Growth(this.find(".growth"), this.zoom);
    this.redraw = onFrame(() => this.draw());
    this.curve = new Figure(this.find(".plot.curve"), {
      skeleton: props.curve,
      keys: this.find(".curve-legend"),
      plotly: props.plotly,
      fill: (own) => this.result && fillCurve(own, this.result, this.k),
    });
    this.drawing = new Drawing(this.canvas, (width, height) => this.drawTree(width, height));
    this.listenToRates();
    this.listenToTree();
    this.inspect(null);
    this.load(this.presets[0]);
    offer("trees", setupOf(this, { k: props.k, most: props.most }));
  }

  listenToRates() {
    this.showPreset = presetMenu(this.find, this.presets, (preset) => this.load(preset));
    const rows = this.find(".rates");
    rows.addEventListener("input", (event) => {
      this.setRate([...rows.children].indexOf(event.target.closest(".rate")), Number(event.target.value));
      this.preset = null;
      this.showPreset(null);
      this.changed();
    });
    const button = this.find(".from-run");
    const usable = () => run.rounds.some(({ nodes }) => nodes.some(({ status }) => status !== "unvisited"));
    subscribe(onFrame(() => (button.disabled = !usable())));
    button.addEventListener("click", () => {
      if (!usable()) return;
      const note = `This is the acceptance by child index in the ${run.rounds.length} rounds of the run in Watch. An index that was never drafted has 0.`;
      this.load({ rates: fromRounds(run.rounds, this.rates.length), tail: 0, note });
    });
  }

  listenToTree() {
    const [slider, number] = this.find(".grow").querySelectorAll("input");
    slider.addEventListener("input", () => this.setK(Number(slider.value)));
    for (const input of [slider, number]) input.addEventListener("pointerdown", () => this.pause());
    // Without this, the next update would overwrite the typed number.
    number.addEventListener("focus", () => this.pause());
    number.addEventListener("change", () => {
      this.setK(Number(number.value));
      number.value = this.k; // restores the drawn number if the typed one is too large
    });
    this.find(".play").addEventListener("click", () => (this.playing ? this.pause() : this.play()));
    this.find(".decisions").addEventListener("change", (event) => {
      this.find(".decision-keys").hidden = !event.target.checked;
      this.redraw();
    });
    for (const name of ["pointermove", "pointerdown"]) {
      this.canvas.addEventListener(name, (event) => this.inspect(this.growth.at(event.target)));
    }
    this.canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.inspect(null));
    this.find(".node-table").addEventListener("toggle", () => this.redraw());
  }

  // id: the example's id, if the rates are those of an example.
  load({ id = null, rates, tail, note }) {
    Object.assign(this, { preset: id, rates: [...rates], tail });
    this.showPreset(id, note);
    this.changed();
  }

  // Sets a slider; the last row is the ratio of the tail.
  setRate(i, value) {
    const rounded = Math.round(1000 * value) / 1000;
    if (i < this.rates.length) {
      this.rates[i] = Math.min(rounded, room(this.rates, this.tail, i));
      return;
    }
    this.tail = Math.min(rounded, 0.95);
    const last = this.rates.length - 1;
    this.rates[last] = Math.min(this.rates[last], room(this.rates, this.tail, last));
  }

  setK(k) {
    this.k = Math.min(Math.max(Math.round(k) || 1, 1), this.most);
    this.treeOfK();
  }

  // The animation is slow while the tree is small, then faster; with reduced motion it has a few large steps.
  play() {
    if (this.k === this.most) this.setK(1);
    setText(this.find(".play"), "Pause");
    const next = () => {
      this.setK(reducedMotion() ? 2 * this.k : this.k + 1);
      if (this.k === this.most) return this.pause();
      this.playing = setTimeout(next, reducedMotion() ? 900 : this.k < 16 ? 280 : this.k < 64 ? 90 : 30);
    };
    this.playing = setTimeout(next, 200);
  }

  pause() {
    clearTimeout(this.playing);
    this.playing = null;
    setText(this.find(".play"), "Play");
  }

  changed() {
    this.drawRates();
    this.trees.forget(); // trees of the earlier rates
    const acceptance = this.vector();
    const use = (result) => {
      this.result = { ...result, acceptance };
      this.treeOfK();
    };
    this.asker.ask(() => this.server.grown({ acceptance }), use);
  }

  vector() {
    return acceptance(this.rates, this.tail);
  }

  // Draws the best tree with k nodes. If each best tree contains the smaller ones, the first k nodes of one
  // list are drawn. Otherwise the server is asked for each tree.
  treeOfK() {
    if (!this.result) return;
    this.trees.forget();
    if (this.result.order) return this.show(this.result.order.slice(0, this.k + 1));
    const question = () => this.server.best_tree({ acceptance: this.result.acceptance, k: this.k });
    this.trees.ask(question, ({ rows }) => this.show(rows));
  }

  show(rows) {
    this.nodes = nodesOf(rows, this.result.acceptance);
    this.redraw();
    this.curve.draw();
  }

  inspect(node) {
    const text = this.find(".inspected");
    this.growth.lit = node;
    if (!node) setText(text, text.dataset.hint);
    else if (node.number === 0) setText(text, "The root: the text so far.");
    else {
      const product = node.path.map((i) => digits(this.result.acceptance[i])).join(" × ");
      setText(
        text,
        `Path (${node.path.join(", ")}): accepted with probability ${digits(node.acceptance)} = ${product}.`,
      );
    }
  }

  draw() {
    this.drawRates();
    if (!this.nodes) return;
    this.drawing.draw();
    this.tell();
    this.drawTables();
  }

  drawTree(width, height) {
    if (this.nodes) this.growth.draw(this.nodes, this.find(".decisions").checked, width, height);
  }

  drawRates() {
    const rows = [
      ...this.rates.map((rate, i) => [`R(${i})`, rate]),
      [`tail: R(i + 1) / R(i) from R(${this.rates.length - 1}) on`, this.tail],
    ];
    fillRows(this.find(".rates"), rows, rateRow, (label, [name, value], i) => {
      const [text, slider, output] = label.children;
      setText(text, name);
      label.classList.toggle("tail", i === this.rates.length);
      if (i === this.rates.length) slider.max = 0.95;
      if (Number(slider.value) !== value) slider.value = value;
      setText(output, value.toFixed(3));
      slider.setAttribute("aria-valuetext", value.toFixed(3));
    });
    const missing = Math.max(0, 1 - sum(this.vector()));
    const [note, uncertainty] = this.find(".left-over").children;
    setText(note, `In ${share(missing)} of the cases no child is accepted, however many are drafted.`);
    uncertainty.hidden = !this.result;
    if (this.result) setText(uncertainty.lastElementChild, digits(this.result.entropy));
  }

  tell() {
    const [slider, number] = this.find(".grow").querySelectorAll("input");
    slider.value = this.k;
    if (number !== document.activeElement) number.value = this.k;
    const { tokens, how, order } = this.result;
    const digitsOf = (name) => digits(tokens[name][this.k]);
    const newest = this.nodes.at(-1);
    const extra = order ? ` The newest token is at depth ${newest.depth} and adds ${digits(newest.acceptance)}.` : "";
    const verdict = this.find("[aria-labelledby=lab-tree-title] .verdict");
    verdict.ariaLive = this.playing ? "off" : "polite"; // a screen reader announces only the last tree of a play
    setText(
      verdict,
      `k = ${this.k}: the best tree yields ${digitsOf("optimal")} tokens per target call; SpecInfer's tree ${digitsOf("specinfer")}, a sequence ${digitsOf("sequence")}, a batch ${digitsOf("batch")}.${extra}`,
    );
    setText(this.find(".how"), how);
    setText(this.find(".gained"), gained(tokens));
    const deepest = Math.max(...this.nodes.map(({ depth }) => depth));
    this.find(".growth").ariaLabel = `Tree of ${this.k} nodes, ${deepest} deep. A table follows.`;
  }

  drawTables() {
    if (this.find(".node-table").open) {
      const nodes = this.nodes.slice(1).sort((a, b) => b.acceptance - a.acceptance);
      const row = (node, i) => [i + 1, `(${node.path.join(", ")})`, digits(node.acceptance)];
      fillTable(this.find(".node-table tbody"), nodes.map(row));
    }
    const tokens = (k) => curvesOf(this.curve.skeleton.data).map(({ meta }) => this.result.tokens[meta][k]);
    const rows = this.result.bounds.map(([k, ...bounds]) => [k, ...[...tokens(k), ...bounds].map(digits)]);
    fillTable(this.find(".curve-table tbody"), rows);
  }
}

export const mount = (element, props, server) => new TreeLab(element, props, server);
