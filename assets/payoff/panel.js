// “Will it pay?”: a visitor measures the loaded pair, or changes the values of a set-up; the server computes all
// numbers and sentences. The first line tells the pair's gain here, as measured or as in the visitor's last run.

import { isLoadActive, onModels } from "../page/models.js";
import { pairWords } from "../page/pair.js";
import { offer } from "../page/setup.js";
import { whenOpen } from "../page/tabs.js";
import { Figure } from "../shared/figure.js";
import { Asker } from "../shared/lab_view.js";
import { digits } from "../shared/labels.js";
import { speed, speedWords } from "../shared/speed.js";
import { state as run, subscribe } from "../shared/store.js";
import { fillRows, fillTable, make, setText } from "../shared/view.js";
import { setupOf } from "./setup.js";

const ASK_AGAIN = 1000; // milliseconds
const times = (value) => `${value.toFixed(2)}×`;
const percent = (value) => (value < 0.005 ? "under 1%" : `${(100 * value).toFixed(0)}%`);
const SHOWN = { acceptance: percent, draft_step: (value) => value.toFixed(3), rest: (value) => value.toFixed(3) };

// The points at which the speed-up crosses that of plain decoding.
function crossings(curve) {
  return curve.slice(1).flatMap(([k, , speedUp], i) => {
    const [start, , last] = curve[i];
    return last > 1 && speedUp < 1 ? [start + (last - 1) / (last - speedUp)] : [];
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
  Object.assign(even, { x, y: x.map(() => 1), hovertext: x.map((each) => `the gain ends at k = ${each.toFixed(1)}`) });
  layout.xaxis.range = [-0.5, k.at(-1) + 0.5];
  layout.yaxis.range = [0, 1.08 * Math.max(...curve.flatMap(([, ...values]) => values))];
}

const namesOf = (models) => models.map(({ name }) => name).join("\n");

const gainOf = ({ speed_up: gain, drafted }) =>
  drafted > 0 ? `${gain.toFixed(2)} times plain decoding` : "no gain, because plain decoding is as fast";

const gainWords = (speed) => `${speedWords(speed)} in your last run${speed.isBusy ? "; other work disturbed it" : ""}.`;

export function mount(element, props, server) {
  const find = (selector) => element.querySelector(selector);
  const inputs = [...element.querySelectorAll("[name]")];
  const rows = inputs.filter(({ name }) => name === "rows");
  const select = find("select.preset");
  const error = find(".error-box");
  const asker = new Asker(error, [find(".drawn")]);
  let [preset, answer, begins] = [props.here, null, false]; // begins: whether the visitor pressed Measure
  /** @type {Record<string, any>} */
  let changes = {};
  let timer; // the timer of the next question during a measurement
  let ofPair = null; // the answer about the loaded pair
  let news = { models: [], status: "rest" }; // names of the models
  let isMeasuring = false;
  let last = null; // the speed of the visitor's last run, and its models

  // The known gain of the pair on this computer.
  function say() {
    const words = pairWords(news.models);
    const isKnown = last?.models === namesOf(news.models);
    const known = ofPair ? `${gainOf(ofPair)}.` : isKnown ? gainWords(last) : "not measured yet.";
    const gain = isMeasuring ? "measuring …" : known;
    const sentence = isLoadActive(news)
      ? `${news.title} is being loaded.`
      : `On this computer, with these two models: ${gain}`;
    setText(find(".here"), sentence);
    const beside =
      ofPair && isKnown ? `. Your last run was ${speedWords(last)}; the gain depends on text and temperature.` : "";
    setText(find(".names"), isLoadActive(news) ? "" : words + beside);
    find(".measure").disabled = isLoadActive(news) || news.models.length === 0;
    find(".measure").hidden = isMeasuring || ofPair !== null;
    element.toggleAttribute("data-empty", answer === null);
  }

  // Shows or hides the progress of a measurement, { share, left }.
  function progress(state) {
    isMeasuring = Boolean(state);
    say();
    for (const part of ["progress", ".cancel"]) find(part).hidden = !isMeasuring;
    if (state) find("progress").value = state.share;
    setText(find(".left"), state ? (state.left > 0 ? `about ${Math.ceil(state.left)} s left` : "Measuring …") : "");
  }

  function cancel() {
    clearTimeout(timer);
    asker.forget();
    progress(null);
    if (preset === props.here && !ofPair) load(props.here, {});
  }

  // Another pair was loaded. The figures of the pair before do not apply to it.
  function take(now) {
    const isFirst = news.models.length === 0 && now.models.length > 0;
    const isOther = !isFirst && namesOf(now.models) !== namesOf(news.models);
    const hasEnded = isLoadActive(news) && !isLoadActive(now);
    const isReady = hasEnded && now.status === "ready" && now.isOwn;
    news = now;
    if (isOther || isLoadActive(now)) {
      ofPair = null;
      if (preset === props.here) cancel();
    }
    if (isReady) load(props.here, {}, true);
    else if (isFirst || hasEnded) look(); // a load that failed leaves the pair that was measured before
    say();
  }

  const figure = new Figure(find(".plot.curve"), {
    skeleton: props.curve,
    keys: find(".legend"),
    plotly: props.plotly,
    fill: (own) => answer && fillCurve(own, answer),
  });

  // Shows the next message below the row of the control that the visitor used.
  const tellAfter = (control) => control.closest(".buttons, .presets, .rows, .rate").after(error);

  function load(name, own, measures = false) {
    [preset, changes, begins] = [name, own, measures];
    select.value = name;
    tellAfter(find(".measure"));
    answer = null;
    progress(null);
    ask();
  }

  function ask() {
    clearTimeout(timer);
    const isHere = preset === props.here;
    if (isHere && (news.models.length === 0 || isLoadActive(news))) return; // `take` asks as soon as they are loaded
    const isNew = isHere && !ofPair; // the pair's own values come first, then the changed ones
    const use = (next) => {
      progress(next.measuring);
      if (next.measuring) timer = setTimeout(ask, ASK_AGAIN);
      if (next.measuring || next.unknown) return;
      if (isNew) ofPair = next;
      if (isNew && Object.keys(changes).length > 0) return ask();
      answer = next;
      say();
      show();
    };
    asker
      .ask(() => server.verdict({ preset, begins, ...(isNew ? {} : changes) }), use)
      .then(() => {
        if (error.hidden) return;
        begins = false;
        progress(null);
        error.scrollIntoView({ block: "nearest" });
      });
  }

  function show() {
    const { values, curve, least_acceptance: least, dearest_draft: dearest } = answer;
    for (const input of inputs) {
      // A number that is being typed is not changed.
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
    const longest = `longest draft step that pays: ${digits(dearest)} calls`;
    setText(find(".dearest"), dearest === null ? "with this acceptance no draft pays, however fast" : longest);
    fillRows(find(".sentences"), answer.sentences, () => make("li"), setText);
    const best = (k) => (k === answer.drafted ? " ★" : "");
    const row = ([k, tokens, speedUp]) => [`${k}${best(k)}`, tokens.toFixed(2), speedUp.toFixed(2)];
    fillTable(find("tbody"), curve.map(row));
    figure.draw();
  }

  // If the pair is measured already, perhaps by another visitor, the result is shown at once.
  const look = whenOpen(element, () => answer === null && ask());

  select.append(...props.presets.map(([id, name]) => new Option(name, id)));
  select.addEventListener("change", () => {
    load(select.value, {});
    tellAfter(select);
  });
  find(".measure").addEventListener("click", () => load(props.here, preset === props.here ? changes : {}, true));
  find(".cancel").addEventListener("click", cancel);
  onModels(take);
  subscribe(() => {
    const isOwn = !run.recorded && run.setup?.models && run.setup.method !== "ar";
    const own = isOwn ? speed(run) : null;
    if (!own || own.times === last?.times) return;
    last = { ...own, models: namesOf(run.setup.models) };
    say();
  });
  element.addEventListener("input", ({ target }) => {
    if (!target.name) return;
    tellAfter(target);
    const number = (input) => (input.value.trim() === "" ? null : Number(input.value));
    if (target.name === "rows") changes.rows = rows.map(number);
    else changes[target.name] = target.name === "shape" ? target.value : number(target);
    ask();
  });

  const limits = Object.fromEntries(inputs.map(({ name, min, max }) => [name, [Number(min), Number(max)]]));
  const shapes = [...find("select[name=shape]").options].map(({ value }) => value);
  const state = () => ({ preset, changes });
  const ids = props.presets.map(([id]) => id);
  const { here, example } = props;
  const inAddress = setupOf({ here, example, presets: ids, rows: rows.length, shapes, limits, state, load });
  if (!offer("payoff", inAddress)) load(here, {});
}
