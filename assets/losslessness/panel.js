// The losslessness check: verdict, numbers, the bars of all outcomes, the curve of the p-value, earlier checks.

import { fieldOf, tellField, valuesOf } from "../page/fields.js";
import { offer, onFields } from "../page/setup.js";
import { METHODS } from "../shared/catalogue.js";
import { Drawing } from "../shared/drawing.js";
import { mountFailure } from "../shared/failure.js";
import { share } from "../shared/labels.js";
import { PValues } from "../shared/p_values.js";
import { tableOf } from "../shared/plot.js";
import { blockEfficiency } from "../shared/totals.js";
import { onFrame, setText } from "../shared/view.js";
import { Bars, isBeyond, spread, tokensOf } from "./bars.js";
import { begin, clearPast, isActive, repeat, showRecorded, state, stop, subscribe } from "./state.js";
import { bounded, caught, count, statistic, verdict } from "./words.js";

const DECADES = 12; // powers of ten on the axis of p-values; smaller p-values are drawn at the bottom
const OUTCOMES = ["continuation", "probability", "expected count ± 2 SE", "observed count", "off by"];
const NUMBERS = ["tokens per target call", "decodes × tokens", "χ² (degrees of freedom)", "p-value"];
const CHECKS = ["method", "draft", "tree", "mistake", ...NUMBERS, "verdict"];

class Lossless {
  constructor(element, props) {
    this.props = props;
    this.lit = null;
    this.find = (selector) => element.querySelector(selector);
    this.tell = mountFailure(this.find(".lossless-error"), "Run again", repeat);
    this.bars = new Bars(this.find(".bars"), props.tokens);
    const axis = { level: props.alarm, levelName: "alarm level", counted: "decodes" };
    this.path = new PValues(this.find(".path"), { names: ["way"], ...axis });
    this.drawings = [
      new Drawing(this.find(".bars-area"), (width, height) => this.drawBars(width, height)),
      new Drawing(this.find(".path-area"), (width, height) =>
        this.path.draw([state.path], { most: state.setup.decodes, low: DECADES }, width, height),
      ),
    ];
    this.listen();
    subscribe(onFrame(() => this.draw()));
    showRecorded(props.recorded);
    offer("check", { get: () => ({}), set: ({ recorded }) => recorded && showRecorded(props.recorded, true) });
  }

  listen() {
    this.find(".clear").addEventListener("click", clearPast);
    this.find(".outcome-table").addEventListener("toggle", () => this.writeTable());
    const inspect = ({ target }) => {
      const outcome = target.closest?.("[data-outcome]");
      this.lit = outcome ? Number(outcome.dataset.outcome) : null;
      this.drawings[0].draw();
      this.writeInspected();
    };
    for (const event of ["pointerover", "click"]) this.find(".bars").addEventListener(event, inspect);
  }

  draw() {
    document.body.dataset.check = state.phase;
    const { kind, text } = verdict(state, this.props);
    const element = this.find(".verdict");
    setText(element, text);
    element.className = `verdict ${kind}`;
    // a screen reader announces the start and the end of a check, not every number
    element.setAttribute("aria-live", state.phase === "running" ? "off" : "polite");
    this.tell(state.message);
    this.writeTiles();
    for (const drawing of this.drawings) drawing.draw();
    this.writeSpread();
    this.writeInspected();
    this.writeTable();
    this.writePast();
    this.writeModels();
  }

  writeTiles() {
    const { decodes, chi_square, setup, calls, emitted } = state;
    const [value, freedom, p] = chi_square;
    const write = (selector, text) => setText(this.find(selector), text);
    const some = decodes > 0;
    write(".decodes", some ? count(decodes) : "–");
    const tested = setup.tokens > 1 ? `${setup.tokens} tokens of each are` : "one token of each is";
    write(".decodes-of", `of ${count(setup.decodes)}; ${tested} tested`);
    write(".statistic", freedom > 0 ? statistic(value) : "–");
    write(".freedom", freedom > 0 ? `a right decoder has about ${freedom} (degrees of freedom)` : "");
    write(".p-value", freedom > 0 ? bounded(p) : "–");
    write(".speed", blockEfficiency(emitted, calls));
    write(".calls", some ? this.callsIn(state) : "");
  }

  callsIn({ setup, calls, emitted, accepting }) {
    const drafted = setup.method === "ar" ? "nothing drafted" : `${share(accepting / calls)} accept a draft`;
    return `${count(emitted)} in ${count(calls)} calls; ${drafted}`;
  }

  drawBars(width, height) {
    const { distribution, decodes, setup } = state;
    const counts = state.counts.length === distribution.length ? state.counts : distribution.map(() => 0);
    this.levels = this.bars.draw({ distribution, counts, decodes, length: setup.tokens }, [width, height], this.lit);
  }

  writeSpread() {
    const { distribution, counts, decodes, setup } = state;
    const outside = decodes > 0 ? distribution.filter((p, i) => isBeyond(p, counts[i], decodes)).length : 0;
    const lead =
      decodes > 0
        ? `${outside} of ${distribution.length} bars are beyond ± 2 standard errors; chance alone gives about ${(0.05 * distribution.length).toFixed(1)}.`
        : `${distribution.length} possible continuations.`;
    const order = setup.tokens > 1 ? " Below a bar are its tokens, the first one at the bottom." : "";
    const missing = ` In each group, the last tokens are in the order ${this.props.tokens.join(", ")}.`;
    setText(this.find(".spread"), lead + order + (this.levels < setup.tokens ? missing : ""));
  }

  nameOf(i) {
    return tokensOf(i, this.props.tokens.length, state.setup.tokens)
      .map((token) => this.props.tokens[token])
      .join(", ");
  }

  writeInspected() {
    const element = this.find(".inspected");
    const { distribution, counts, decodes } = state;
    if (this.lit === null || this.lit >= distribution.length) return setText(element, element.dataset.hint);
    const p = distribution[this.lit];
    const [name, number] = [this.nameOf(this.lit), counts[this.lit]];
    if (decodes === 0) return setText(element, `${name}: exact ${share(p)}.`);
    const observed = `${share(number / decodes)} of ${count(decodes)} decodes (${count(number)})`;
    const error = (100 * spread(p, decodes)).toFixed(2);
    setText(element, `${name}: ${observed}; exact ${share(p)} ± ${error} points.`);
  }

  writeTable() {
    const details = this.find(".outcome-table");
    // A table that is closed, or open during a check, is not updated. An open table would flicker.
    if (!details.open || isActive()) return;
    const { distribution, counts, decodes: n } = state;
    const caption = `Continuations of ${count(n)} decodes; SE: standard error of a count`;
    const rows = distribution.map((p, i) => {
      if (n === 0) return [this.nameOf(i), share(p), "–", "–", "–"];
      const error = (spread(p, n) * n) / 2;
      const off = (counts[i] - n * p) / error;
      const expected = `${(n * p).toFixed(1)} ± ${(2 * error).toFixed(1)}`;
      const beside = `${off < 0 ? "−" : "+"}${Math.abs(off).toFixed(1)} SE`;
      return [this.nameOf(i), share(p), expected, count(counts[i]), beside];
    });
    tableOf(details.querySelector(".scroll"), { caption, columns: OUTCOMES, rows });
  }

  writePast() {
    this.find(".history-card").hidden = state.past.length === 0;
    if (this.written === state.past) return;
    this.written = state.past;
    tableOf(this.find(".history"), {
      caption: "Newest first. Tokens per target call are all tokens of the calls, also those that are not tested.",
      columns: CHECKS,
      rows: state.past.map((check) => this.rowOf(check)),
    });
  }

  rowOf(check) {
    const { setup, tree, decodes, chi_square, calls, emitted } = check;
    const [value, freedom, p] = chi_square;
    const plain = setup.method === "ar";
    const verdict = caught(check, this.props.alarm) ? "✗ difference" : "✓ none found";
    return [
      METHODS[setup.method],
      plain ? "–" : this.props.drafts[setup.draft].split(":")[0],
      plain ? "–" : `${setup.topology}, ${tree.levels.join(" + ")}`,
      setup.fault ? this.props.faults[setup.fault] : "none",
      blockEfficiency(emitted, calls),
      `${count(decodes)} × ${setup.tokens}`,
      `${statistic(value)} (${freedom})`,
      bounded(p),
      verdict,
    ];
  }

  writeModels() {
    if (this.shown === state.tables) return;
    this.shown = state.tables;
    const captions = { target: "target P", draft: `draft Q (${this.props.drafts[state.setup.draft]})` };
    for (const [role, caption] of Object.entries(captions)) {
      const rows = state.tables[role].map((row, i) => [this.props.tokens[i], ...row.map((p) => p.toFixed(3))]);
      tableOf(this.find(`.models .${role}`), { caption, columns: ["today", ...this.props.tokens], rows });
    }
  }
}

const FORM = "lossless";

// Shows only the controls that the chosen settings need.
function mountForm({ faults, words }) {
  const field = (name) => fieldOf(FORM, name);
  const info = (name, text) => setText(field(name).element.querySelector(".info"), text);
  return () => {
    const { method, topology, broken, fault } = valuesOf(FORM);
    const own = Object.keys(faults).filter((name) => faults[name].method === method);
    if (own.length > 0 && !own.includes(fault)) field("fault").value = own[0];
    const entry = faults[own.includes(fault) ? fault : own[0]];
    field("broken").isDisabled = own.length === 0;
    info("broken", own.length > 0 ? words.breaks : words.nothing);
    for (const control of field("fault").controls) control.closest("label").hidden = !own.includes(control.value);
    field("fault").element.hidden = !broken || own.length === 0;
    if (entry) info("fault", entry.words + (topology === "sequence" ? entry.sequence : ""));
    for (const name of ["topology", "k"]) field(name).isDisabled = method === "ar";
  };
}

export function mount(element, props) {
  const titles = Object.entries(props.faults).map(([name, { title }]) => [name, title]);
  new Lossless(element, { ...props, faults: Object.fromEntries(titles) });
  onFields(mountForm(props));
  const view = element.querySelector(".verdict");
  const scroll = () => view.scrollIntoView({ block: "start" });
  const button = (id) => /** @type {HTMLButtonElement} */ (document.getElementById(id));
  const [start, halt] = [button("lossless-run"), button("lossless-stop")];
  // On a phone the view is below the controls. After Run, the page scrolls to it once the buttons have moved.
  start.addEventListener("click", () => {
    begin(valuesOf(FORM));
    if (matchMedia("(max-width: 40em)").matches) requestAnimationFrame(() => requestAnimationFrame(scroll));
  });
  halt.addEventListener("click", stop);
  let { phase } = state;
  subscribe(() => {
    [start.disabled, halt.disabled] = [isActive(), !isActive()];
    if (state.phase !== phase) tellField(FORM, state.phase === "error" ? state.message : "");
    phase = state.phase;
  });
  if ("pressed" in start.dataset) start.click();
}
