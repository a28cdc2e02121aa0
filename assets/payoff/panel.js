// Will drafting pay? The visitor changes single values of a set-up; the server computes all numbers and sentences.

import { offer } from "../page/setup.js";
import { Figure } from "../shared/figure.js";
import { Asker } from "../shared/lab_view.js";
import { digits } from "../shared/labels.js";
import { legend } from "../shared/legend.js";
import { fillRows, fillTable, make, setText } from "../shared/view.js";
import { setupOf } from "./setup.js";

const ASK_AGAIN = 1000; // milliseconds
const times = (value) => `${value.toFixed(2)}×`;
const percent = (value) => (value < 0.005 ? "under 1%" : `${(100 * value).toFixed(0)}%`);
const SHOWN = { acceptance: percent, draft_step: (value) => value.toFixed(3), rest: (value) => value.toFixed(3) };

// The points where the speed-up crosses that of plain decoding.
function crossings(curve) {
  return curve.slice(1).flatMap(([k, , speedUp], i) => {
    const [before, , last] = curve[i];
    return last > 1 && speedUp < 1 ? [before + (last - 1) / (last - speedUp)] : [];
  });
}

function fillCurve({ data, layout }, { curve, drafted, speed_up: speedUp }) {
  const [tokens, speeds, plain, best, even] = data;
  const k = curve.map(([each]) => each);
  Object.assign(tokens, { x: k, y: curve.map((row) => row[1]) });
  Object.assign(speeds, { x: k, y: curve.map((row) => row[2]) });
  Object.assign(plain, { x: [0, k.at(-1)], y: [1, 1] });
  Object.assign(best, { x: [drafted], y: [speedUp], hovertext: [`best k = ${drafted}: ${times(speedUp)}`] });
  const x = crossings(curve);
  Object.assign(even, { x, y: x.map(() => 1), hovertext: x.map((each) => `breaks even at k = ${each.toFixed(1)}`) });
  layout.xaxis.range = [-0.5, k.at(-1) + 0.5];
  layout.yaxis.range = [0, 1.08 * Math.max(...curve.flatMap(([, ...values]) => values))];
}

export function mount(element, props, server) {
  const find = (selector) => element.querySelector(selector);
  const inputs = [...element.querySelectorAll("[name]")];
  const rows = inputs.filter(({ name }) => name === "rows");
  const select = find("select.preset");
  const asker = new Asker(find(".error-box"), find(".drawn"));
  let [preset, answer] = [props.start, null];
  /** @type {Record<string, any>} */
  let changes = {};
  let again; // the timer of the next question while the server is measured

  const figure = new Figure(find(".plot.curve"), {
    skeleton: props.curve,
    plotly: props.plotly,
    fill: (own) => answer && fillCurve(own, answer),
  });
  legend(find(".legend"), props.curve.data, () => figure.draw());

  function load(name, own) {
    [preset, changes] = [name, own];
    select.value = name;
    ask();
  }

  function ask() {
    clearTimeout(again);
    const use = (next) => {
      if (next.measuring) {
        setText(find(".source"), next.measuring);
        again = setTimeout(ask, ASK_AGAIN);
        return;
      }
      answer = next;
      show();
    };
    asker.ask(() => server.verdict({ preset, ...changes }), use);
  }

  function show() {
    const { values, curve, least_acceptance: least, dearest_draft: dearest } = answer;
    for (const input of inputs) {
      // A number that is being typed stays as it is.
      const value = input.name === "rows" ? values.rows[rows.indexOf(input)] : values[input.name];
      if (!(input === document.activeElement && input.name in changes) || input.type === "range")
        input.value = input.type === "number" ? Number(value.toPrecision(3)) : value;
      if (input.type !== "range") continue;
      setText(input.nextElementSibling, SHOWN[input.name](value));
      input.setAttribute("aria-valuetext", SHOWN[input.name](value));
    }
    setText(find(".source"), `${Object.keys(changes).length ? "Changed from: " : ""}${answer.source}`);
    setText(find(".speed-up"), times(answer.speed_up));
    setText(find(".drafted"), String(answer.drafted));
    setText(find(".tokens"), answer.tokens_per_call.toFixed(2));
    setText(find(".least"), least === null ? "never" : percent(least));
    setText(
      find(".dearest"),
      dearest === null ? "even with a free draft" : `or with a draft step of ${digits(dearest)} calls`,
    );
    fillRows(find(".sentences"), answer.sentences, () => make("li"), setText);
    fillTable(
      find("tbody"),
      curve.map(([k, tokens, speedUp]) => [
        `${k}${k === answer.drafted ? " ★" : ""}`,
        tokens.toFixed(2),
        speedUp.toFixed(2),
      ]),
    );
    figure.draw();
  }

  select.append(...props.presets.map(([id, name]) => new Option(name, id)));
  select.addEventListener("change", () => load(select.value, {}));
  element.addEventListener("input", ({ target }) => {
    if (!target.name) return;
    const number = (input) => (input.value.trim() === "" ? null : Number(input.value));
    if (target.name === "rows") changes.rows = rows.map(number);
    else changes[target.name] = target.name === "shape" ? target.value : number(target);
    ask();
  });

  const limits = Object.fromEntries(inputs.map(({ name, min, max }) => [name, [Number(min), Number(max)]]));
  const shapes = [...find("select[name=shape]").options].map(({ value }) => value);
  const state = () => ({ preset, changes });
  const ids = props.presets.map(([id]) => id);
  const inAddress = setupOf({ start: props.start, presets: ids, rows: rows.length, shapes, limits, state, load });
  if (!offer("payoff", inAddress)) load(preset, {});
}
