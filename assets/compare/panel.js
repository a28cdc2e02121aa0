// The comparison: several methods side by side, from one prompt and seed. A changed column is run again.

import { onModels } from "../page/models.js";
import { pairLine, pairWords, RECORDED, writesCode } from "../page/pair.js";
import { offer } from "../page/setup.js";
import { whenOpen } from "../page/tabs.js";
import { mountFailure } from "../shared/failure.js";
import { tableOf } from "../shared/plot.js";
import { onFrame, setText } from "../shared/view.js";
import { ColumnView, judged } from "./column.js";
import { Columns } from "./columns.js";
import { fieldsOf, Shared } from "./shared.js";
import * as runs from "./state.js";
import { beside, HEAD, rows, status, summary } from "./words.js";

const { state, isActive } = runs;

const SETTLED = 500; // milliseconds after the last change of a column until the column is run again
const AGAIN = 2000; // milliseconds until the recorded comparison is requested again
const ADDED = "ersd.batch.4.own";
const CHANGED = "You changed the prompt, the seed, the length or the temperature. Press Run to compare again.";
const CAPTION =
  "One run for each column. The seconds are those of drafting, evaluating and verifying. Time per token and relative speed are computed from the median time of a round, so that a few slow rounds do not change them. Plain decoding has the relative speed 1.";

class Comparison {
  asked = null;

  constructor(element, props, server) {
    this.element = element;
    this.props = props;
    this.columns = new Columns(props);
    this.views = [];
    this.timer = null;
    this.find = (selector) => element.querySelector(selector);
    this.shared = new Shared(this.find("form"), props.mostTokens, () => this.draw());
    this.fields = {
      ...fieldsOf(this.shared, props.mostTokens),
      columns: { kind: "text", default: props.examples[0].columns },
    };
    this.repeat = () => {};
    this.tell = mountFailure(this.find(".run-error"), "Run again", () => this.repeat());
    this.connect();
    this.setColumns(this.fields.columns.default);
    this.drawSoon = onFrame(() => this.draw());
    runs.subscribe(this.drawSoon);
    this.models = [];
    onModels((pair) => this.loaded(pair));
    this.record = null;
    whenOpen(element, () => this.fetchRecord(server));
  }

  // Each pair has its own example prompt, which replaces that of the pair before if nothing was run yet.
  loaded({ models, chats }) {
    this.models = models;
    this.drawSoon();
    if (models.length === 0) return;
    const { values } = this.shared;
    const usual = this.fields.prompt.default;
    const prompt = this.props.prompts[writesCode(models) ? "programs" : chats ? "questions" : "stories"];
    this.fields.prompt.default = prompt;
    if (prompt === usual || values.prompt !== usual || !["idle", "recorded"].includes(state.phase)) return;
    runs.forgetRecorded();
    this.shared.values = { ...values, prompt };
    this.open();
  }

  async fetchRecord(server) {
    this.asked ??= server.recorded({}).catch(() => ({}));
    const record = await this.asked;
    if (!record.lanes) {
      this.asked = null; // the server is busy
      return setTimeout(() => this.fetchRecord(server), AGAIN);
    }
    this.record = record;
    this.open();
  }

  // Shows the recorded comparison if it has the form's settings. The prompt may also be the loaded pair's example.
  open() {
    const { record, columns } = this;
    const isRecorded = (column) => column.method === "ar" || record.lanes[columns.written(column)];
    const { prompt } = this.shared.values;
    const isExample = [record?.shared.prompt, this.fields.prompt.default].includes(prompt);
    if (record && isExample && this.shared.fits({ ...record.shared, prompt }) && state.columns.every(isRecorded))
      runs.showRecorded(record, prompt, columns.written);
  }

  connect() {
    this.find("form").addEventListener("submit", () => this.run());
    this.find(".stop").addEventListener("click", runs.stop);
    this.find(".add").addEventListener("click", () => this.add());
    const side = this.find(".side");
    side.addEventListener("pointerover", (event) => this.light(event.target.closest(".token")));
    side.addEventListener("pointerleave", () => this.light(null));
    const choose = this.find(".example");
    choose.addEventListener("change", () => this.choose(choose.value));
  }

  // Highlights the tokens at one position in all texts.
  light(token) {
    const index = Math.max(...this.views.map(({ elements }) => elements.indexOf(token)));
    for (const view of this.views) view.light(index);
  }

  choose(text) {
    if (text === "") return;
    this.setColumns(text);
    this.follow();
  }

  setColumns(text) {
    state.columns = this.columns.parsedAll(text);
    this.fill();
  }

  add() {
    state.columns.push(this.columns.parsed(ADDED));
    this.fill();
    this.follow();
  }

  remove(column) {
    state.columns.splice(state.columns.indexOf(column), 1);
    this.fill();
    this.drawControls(); // there is room for another column now
    this.find(".add").focus();
  }

  // Makes a view for each column and keeps the existing views.
  fill() {
    const old = new Map(this.views.map((view) => [view.column, view]));
    const acts = (column) => ({ changed: () => this.follow(), remove: () => this.remove(column) });
    this.views = state.columns.map((column) => old.get(column) ?? new ColumnView(column, this.props, acts(column)));
    this.find(".side").replaceChildren(...this.views.map((view) => view.element));
    runs.notify();
  }

  // Runs all columns again.
  run() {
    if (isActive()) return;
    const drafting = state.columns.filter(({ method }) => method !== "ar");
    this.start(drafting, true);
  }

  start(columns, anew, values = this.shared.values) {
    clearTimeout(this.timer);
    const remaining = () => columns.filter((column) => state.columns.includes(column));
    this.repeat = () => this.start(remaining(), anew, values); // values has the seed by then, if one was drawn
    const { length, ...shared } = values;
    const entries = columns.map(({ id, ...own }) => ({ name: id, ...own }));
    const models = anew ? null : state.setup.models;
    const request = { ...shared, max_new_tokens: length, columns: entries, reference: anew, models };
    runs.begin(values, columns, this.columns.written, anew, request);
  }

  stale = () => runs.stale(this.columns.written);

  // Whether the models that are loaded now differ from those that wrote the shown texts.
  areOthers() {
    const names = (models) => models.map(({ name }) => name).join();
    return this.models.length > 0 && state.setup !== null && names(state.setup.models) !== names(this.models);
  }

  // Runs the changed columns again when the visitor pauses.
  follow() {
    this.drawSoon();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const columns = this.stale();
      const isComplete = !isActive() && runs.reference()?.phase === "finished";
      if (columns.length === 0 || !isComplete || !this.shared.fits(state.shared)) return;
      if (state.phase === "recorded" || this.areOthers())
        this.run(); // the recorded seconds are from another machine or other models
      else this.start(columns, false);
    }, SETTLED);
  }

  draw() {
    const phase = state.phase;
    if (phase === "done" && this.phase !== "done") this.follow(); // settings that changed during the run
    this.phase = phase;
    this.element.dataset.phase = phase;
    if (state.setup && state.setup !== this.setup) this.shared.drawn(state.setup.seed);
    this.setup = state.setup;
    const old = this.stale();
    this.views.forEach((view, i) => view.draw(i + 1, old.includes(view.column)));
    this.markPartings();
    this.drawControls();
    this.drawWords();
  }

  drawControls() {
    this.find(".run").disabled = isActive();
    this.find(".stop").disabled = !isActive();
    this.find(".add").disabled = this.views.length >= this.props.mostColumns;
    for (const view of this.views) view.remove.disabled = this.views.length === 1;
    const now = this.columns.writtenAll(state.columns);
    this.find(".example").value = this.props.examples.find(({ columns }) => columns === now)?.columns ?? "";
  }

  drawWords() {
    const { views, shared } = this;
    const hasChanged = !isActive() && state.shared !== null && !shared.fits(state.shared);
    const [pair, next] = this.find(".pair-line").children;
    const origin = state.phase === "recorded" ? RECORDED : undefined;
    setText(pair, pairLine(state.setup?.models ?? this.models, origin));
    setText(next, this.areOthers() ? `Run uses: ${pairWords(this.models)}` : "");
    setText(this.find(".standing"), hasChanged ? CHANGED : status(views, this.areOthers()));
    this.tell(state.message);
    setText(this.find(".beside"), beside(views));
    setText(this.find(".summary"), summary(views));
    if (!isActive() && state.lanes.size > 0)
      tableOf(this.find(".scroll"), { caption: CAPTION, columns: HEAD, rows: rows(views) });
  }

  // Each column is marked where it first differs from plain decoding, whose column shows the marks of all columns.
  markPartings() {
    const places = this.views.map(({ column }) => judged(column, runs.laneOf(column)));
    const marks = (verdict, label) => (verdict.same === false ? [{ at: verdict.at, label }] : []);
    const ofOthers = places.flatMap((place, i) => marks(place, `column ${i + 1} differs`));
    this.views.forEach((view, i) =>
      view.mark(view.column.method === "ar" ? ofOthers : marks(places[i], "differs from plain")),
    );
  }

  // The values of the address, as components/page/setup.py describes them.
  get() {
    return { ...this.shared.values, columns: this.columns.writtenAll(state.columns) };
  }

  set({ columns, ...shared }) {
    runs.forgetRecorded();
    this.shared.values = shared;
    this.choose(columns);
    this.open();
  }
}

export function mount(element, props, server) {
  const comparison = new Comparison(element, props, server);
  comparison.draw();
  const { fields } = comparison;
  offer("compare", { fields, get: () => comparison.get(), set: (values) => comparison.set(values) });
  window.specdec.compare = { state };
}
