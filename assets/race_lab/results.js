// Ten thousand races: the measured acceptance, with exact values and bounds, in two figures and a table.

import { METHODS as NAMES } from "../shared/catalogue.js";
import { Figure } from "../shared/figure.js";
import { digits, share } from "../shared/labels.js";
import { fillTable, reducedMotion, setText } from "../shared/view.js";

const SECONDS = 1.6; // duration of the measured curves' animation
const RACES = 10_000;
const FIRST = 10; // the first number of races that is drawn, because earlier intervals cover nearly the whole axis
const METHODS = ["ersd", "gsd"];

const interval = ([rate, low, high]) => `${share(rate)} (${share(low)} to ${share(high)})`;

// Adds the exact lines and the first `count` points of the measured curves to the empty figure.
function fillConvergence({ data, layout }, result, count) {
  const { ersd, gsd, tv_bound, harmonic, measured } = result;
  [ersd, gsd, tv_bound, harmonic].forEach((value, i) =>
    Object.assign(data[2 + i], { x: [FIRST, RACES], y: [value, value] }),
  );
  METHODS.forEach((method, i) => {
    const rows = (measured?.[method].running ?? []).slice(0, count).filter(([races]) => races >= FIRST);
    const column = (j) => rows.map((row) => row[j]);
    const back = [...rows].reverse();
    const [x, y] = [back.map((row) => row[0]), back.map((row) => row[2])];
    Object.assign(data[i], { x: [...column(0), ...x], y: [...column(3), ...y] });
    Object.assign(data[6 + i], { x: column(0), y: column(1) });
    const last = rows.slice(-1);
    const text = last.map((row) => `${NAMES[method]}: ${interval(row.slice(1))} of ${row[0]} races`);
    Object.assign(data[8 + i], { x: last.map((row) => row[0]), y: last.map((row) => row[1]), hovertext: text });
  });
  layout.xaxis.range = [Math.log10(FIRST), Math.log10(RACES) + 0.06];
  layout.yaxis.range = [Math.max(-0.03, Math.min(tv_bound, harmonic) - 0.12), Math.min(1.04, gsd + 0.12)];
}

function fillByIndex({ data, layout }, result) {
  METHODS.forEach((method, i) => {
    const rows = result.measured?.[method].by_index ?? [];
    const x = rows.map((_, index) => index);
    const array = rows.map(([rate, , high]) => high - rate);
    const error_y = { ...data[i].error_y, array, arrayminus: rows.map(([rate, low]) => rate - low) };
    const hovertext = rows.map((row, index) => `${NAMES[method]}, index ${index}: ${interval(row)}`);
    Object.assign(data[i], { x, y: rows.map(([rate]) => rate), error_y, hovertext });
    const exact = result.by_index[method];
    const beside = i === 0 ? -0.175 : 0.175; // the label is above the method's own bar
    const text = exact.map((value, index) => `${NAMES[method]}, index ${index}, exact: ${share(value)}`);
    Object.assign(data[2 + i], { x: exact.map((_, index) => index + beside), y: exact, hovertext: text });
  });
  layout.xaxis.range = [-0.5, result.by_index.ersd.length - 0.5];
}

// Says whether the measured 95% interval contains the exact value; one interval in twenty does not.
function sentence(method, result) {
  const [, , low, high] = result.measured[method].running.at(-1);
  const exact = result[method];
  const contains = exact >= low - 1e-12 && exact <= high + 1e-12;
  const words = contains ? "contains" : "does not contain (as happens to one interval in twenty)";
  return `${NAMES[method]} accepted ${interval(result.measured[method].running.at(-1).slice(1))} of ${result.races.toLocaleString("en")} first drafts; the interval ${words} the exact ${share(exact)}.`;
}

export class Results {
  constructor(section, props) {
    this.find = (selector) => section.querySelector(selector);
    this.result = null;
    this.count = 0;
    const figure = (name, skeleton, fill) =>
      new Figure(this.find(`.${name}`), {
        skeleton,
        keys: this.find(`.${name}-legend`),
        plotly: props.plotly,
        fill: (own) => this.result && fill(own, this.result, this.count),
      });
    this.convergence = figure("convergence", props.convergence, fillConvergence);
    this.byIndex = figure("by-index", props.by_index, fillByIndex);
  }

  // Shows the exact values, and the measured ones if there are any.
  show(result) {
    this.result = result;
    cancelAnimationFrame(this.frame);
    this.writeTiles(result);
    this.writeTable(result);
    setText(this.find(".outcome"), result.measured ? METHODS.map((method) => sentence(method, result)).join(" ") : "");
    this.byIndex.draw();
    const points = result.measured?.ersd.running.length ?? 0;
    if (points === 0 || reducedMotion()) this.reveal(points);
    else this.animate(points, performance.now());
  }

  reveal(count) {
    this.count = count;
    this.convergence.draw();
  }

  animate(points, begin) {
    this.frame = requestAnimationFrame((now) => {
      const part = Math.min(1, (now - begin) / (1000 * SECONDS));
      this.reveal(Math.max(1, Math.round(part * points)));
      if (part < 1) this.animate(points, begin);
    });
  }

  writeTiles(result) {
    const write = (selector, text) => setText(this.find(selector), text);
    for (const method of METHODS) {
      write(`.${method}-exact`, share(result[method]));
      const last = result.measured?.[method].running.at(-1);
      write(`.${method}-measured`, last ? `measured ${interval(last.slice(1))}` : "not measured yet");
    }
    write(".apart", share(result.apart));
    write(".bounds", `${share(result.tv_bound)}, ${share(result.harmonic)}`);
    const kl = result.kl === null ? "∞" : digits(result.kl);
    write(".bounds-note", `(1 − TV) / (1 + TV), harmonic mean; TV = ${digits(result.tv)}, D_KL = ${kl} bits`);
  }

  writeTable(result) {
    const intervalOf = (method, index) => (result.measured ? interval(result.measured[method].by_index[index]) : "–");
    const cellsOf = (index) => (method) => [share(result.by_index[method][index]), intervalOf(method, index)];
    const rows = result.by_index.ersd.map((_, index) => [index, ...METHODS.flatMap(cellsOf(index))]);
    fillTable(this.find(".index-table tbody"), rows);
  }
}
