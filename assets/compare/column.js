// One column of the comparison: its settings, its numbers, the verdict on its text, and the text.

import { KINDS } from "../shared/catalogue.js";
import { term } from "../shared/glossary.js";
import { appendText, tokenElement } from "../shared/labels.js";
import { decodingSeconds, median } from "../shared/totals.js";
import { fillRows, make, makeButton, setText } from "../shared/view.js";
import { Controls } from "./controls.js";
import { around, change, efficiency, reason, verdict } from "./diff.js";
import { laneOf, reference, state } from "./state.js";

const NOISE = 0.1; // the speeds of two identical runs may differ by this share
const TILES = { efficiency: "tokens per call", time: "time per token", ratio: "relative speed" };

const TERMS = { efficiency: "block efficiency", ratio: "relative speed" };

// A note if a run with the topology "auto" drafted nothing because drafting does not pay.
const undrafted = ({ asked, tree, totals }) =>
  asked !== "ar" && tree?.num_draft_tokens === 0 && totals.drafted === 0 ? "; drafting does not pay here" : "";

// The value and the note of each tile.
function numbers(lane, plain) {
  const { totals } = lane ?? {};
  if (!totals?.rounds) return { efficiency: ["–", ""], time: ["–", ""], ratio: ["–", ""] };
  return {
    efficiency: [efficiency(lane), `${totals.tokens} tokens, ${totals.rounds} calls${undrafted(lane)}`],
    time: [`${milliseconds(lane)} ms`, "median round"],
    ratio: plain ? ["1", "by definition"] : compared(lane),
  };
}

// The relative speed of a finished run as [value, note].
export function compared(lane) {
  if (lane.phase !== "finished") return ["–", ""];
  const ratio = typicalSpeed(lane) / typicalSpeed(reference());
  return [ratio.toFixed(2), Math.abs(ratio - 1) > NOISE ? "times plain" : "about the same"];
}

// Tokens per second, computed from the median time of a round and the mean tokens of a round. Time per token
// and relative speed both use this number, so that they agree. Most rounds of a run take about the same time,
// and on a busy machine a few slow rounds would dominate a mean.
function typicalSpeed({ rounds, totals }) {
  return totals.tokens / rounds.length / median(rounds.map(decodingSeconds));
}

// Milliseconds per token, from `typicalSpeed`. A reader can compute the relative speed from these digits.
export const milliseconds = (lane) => (1000 / typicalSpeed(lane)).toFixed(2);

const NOTHING_YET = "Press Run, and the text grows here";
const EMPTY = {
  waiting: "This column waits for the earlier ones",
  choosing: "Measuring acceptance to choose the tree …",
  stopped: "This run did not begin",
};

/**
 * The verdict on a column's text. Unknown parts are missing.
 * @returns {{ line: string, reason?: string, change?: string, at?: number, same?: boolean, failed?: boolean }}
 */
export function judged(column, lane) {
  if (!lane) return { line: NOTHING_YET };
  if (lane.tokens.length === 0 && EMPTY[lane.phase]) return { line: EMPTY[lane.phase] };
  if (lane.phase === "failed") return { line: lane.message, failed: true };
  if (column.method === "ar") return { line: "The large model alone, one token for each call" };
  const judgement = verdict(lane, reference());
  const setting = { greedy: state.shared.temperature === 0, dtype: state.setup?.models[0].dtype };
  return { ...judgement, reason: reason(column.method, judgement, setting), change: change(lane) };
}

export class ColumnView {
  constructor(column, choices, { changed, remove }) {
    this.column = column;
    this.lane = null;
    this.elements = [];
    this.marked = "";
    this.phase = "";
    this.controls = new Controls(column, choices, changed);
    this.title = make("h3", "visually-hidden");
    this.remove = makeButton("remove", "×", remove);
    this.prompt = make("span", "prompt");
    this.tokens = make("span", "tokens");
    this.text = Object.assign(make("div", "story", this.prompt, this.tokens), { tabIndex: 0, role: "region" });
    const [said, change, reason] = ["said", "change", "reason"].map((name) => make("p", name));
    const places = make("dl", "places");
    this.parts = { said, change, places, reason };
    this.numbers = {};
    const tiles = Object.entries(TILES).map(([name, label]) => {
      this.numbers[name] = [make("dd", name), make("dd", "note")];
      return make("div", "", make("dt", "", TERMS[name] ? term(TERMS[name], label) : label), ...this.numbers[name]);
    });
    this.element = make(
      "article",
      "card column",
      make("header", "", this.title, this.controls.element, this.remove),
      make("div", "judgement", said, change),
      this.text,
      make("dl", "tiles", ...tiles),
      make("div", "reasons", places, reason),
    );
  }

  // old: whether the shown run has other settings than the column now.
  draw(number, old) {
    const { column } = this;
    const name = `${number}, ${this.controls.method}`;
    setText(this.title, `${number} · ${this.controls.method}`);
    this.element.setAttribute("aria-label", `Column ${name}`);
    this.remove.setAttribute("aria-label", `Remove column ${name}`);
    this.text.setAttribute("aria-label", `Text of column ${name}`);
    const lane = laneOf(column);
    this.element.toggleAttribute("data-old", old && Boolean(lane));
    if (lane !== this.lane) this.restart(lane);
    if (lane) this.append(lane);
    for (const [tile, texts] of Object.entries(numbers(lane, column.method === "ar"))) {
      texts.forEach((text, i) => setText(this.numbers[tile][i], text));
    }
    this.judge(judged(column, lane));
  }

  restart(lane) {
    Object.assign(this, { lane, elements: [], marked: "" });
    this.prompt.replaceChildren();
    this.tokens.replaceChildren();
    if (lane) appendText(this.prompt, state.prompt);
  }

  // Appends new tokens. The text follows them unless the visitor has scrolled up, and returns to the top at the end.
  append({ tokens, phase }) {
    const titled = ({ kind, text }) => Object.assign(tokenElement(kind, text), { title: KINDS[kind] });
    const elements = tokens.slice(this.elements.length).map(titled);
    if (elements.length > 0) {
      const { scrollTop, clientHeight, scrollHeight } = this.text;
      this.elements.push(...elements);
      this.tokens.append(...elements);
      if (scrollTop + clientHeight > scrollHeight - 40) this.text.scrollTop = this.text.scrollHeight;
    }
    if (phase === "finished" && this.phase !== phase) this.text.scrollTop = 0;
    this.phase = phase;
  }

  /** @param {ReturnType<typeof judged>} said */
  judge({ line, reason: why = "", change: words = "", same, at, failed = false }) {
    this.element.dataset.same = String(same ?? null);
    this.element.toggleAttribute("data-plain", this.column.method === "ar");
    this.element.toggleAttribute("data-failed", failed);
    setText(this.parts.said, line);
    setText(this.parts.reason, why);
    setText(this.parts.change, words);
    const lanes = { plain: reference(), here: this.lane };
    const names = same === false ? Object.keys(lanes) : [];
    fillRows(this.parts.places, names, place, (row, name) => fillPlace(row, name, around(lanes[name].tokens, at)));
  }

  light(index) {
    for (const lit of this.tokens.querySelectorAll(".lit")) lit.classList.remove("lit");
    this.elements[index]?.classList.add("lit");
  }

  // Replaces the marks in the text. Each mark is { at, label }: the label is put before token number `at`.
  mark(marks) {
    const text = JSON.stringify(marks);
    if (text === this.marked) return;
    this.marked = text;
    for (const old of this.tokens.querySelectorAll(".parting")) old.remove();
    for (const { at, label } of marks)
      this.tokens.insertBefore(make("span", "parting", label), this.elements[at] ?? null);
  }
}

// An excerpt of one text around the token at which it differs from another.
const place = () => make("div", "", make("dt"), make("dd", "", make("span"), make("mark"), make("span")));

function fillPlace(row, name, { before, token, after }) {
  setText(row.firstChild, name);
  [before, token, after].forEach((part, i) => setText(row.lastChild.children[i], part));
}
