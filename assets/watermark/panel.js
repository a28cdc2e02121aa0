// The watermark of the run in Watch: the score of each token, and the p-value of the text up to each token.

import { Drawing } from "../shared/drawing.js";
import { Asker } from "../shared/lab_view.js";
import { appendText, visible } from "../shared/labels.js";
import { decades, PValues } from "../shared/p_values.js";
import { tableOf } from "../shared/plot.js";
import { isActive, state, subscribe } from "../shared/store.js";
import { make, onFrame, setText } from "../shared/view.js";
import { about, level, pValueOf, rows } from "./words.js";

const NOTHING = "There is no run yet: generate a text in Watch, or choose a recorded run there.";

class Watermark {
  constructor(element, props, server) {
    this.props = props;
    this.server = server;
    this.find = (selector) => element.querySelector(selector);
    this.inputs = [...element.querySelectorAll("[name=watermark-version]")];
    this.inputs[0].checked = true;
    this.run = null; // the run whose scores are shown
    this.versions = null;
    this.lit = null;
    this.seen = false;
    this.asker = new Asker(this.find(".error-box"), [".about", ".versions", ".halves"].map(this.find));
    this.names = this.inputs.map(({ value }) => value);
    const axis = { level: props.certain, levelName: "one in a million", counted: "tokens read" };
    this.fall = new PValues(this.find(".fall"), { names: this.names, ...axis });
    this.drawing = new Drawing(this.find(".fall-area"), (width, height) => this.drawFall(width, height));
    this.listen(element);
    subscribe(onFrame(() => this.follow()));
  }

  listen(element) {
    for (const input of this.inputs) input.addEventListener("change", () => this.draw());
    this.find(".other-seed").addEventListener("change", () => this.ask());
    this.find("details").addEventListener("toggle", () => this.writeTable());
    const inspect = ({ target }) => this.light(target.closest?.("[data-number]"));
    for (const event of ["pointerover", "click"]) this.find(".scored").addEventListener(event, inspect);
    // requested only while the panel is visible
    new IntersectionObserver((changes) => {
      this.seen = changes.at(-1)?.isIntersecting ?? false;
      this.follow();
    }).observe(element);
  }

  get chosen() {
    return this.inputs.find(({ checked }) => checked).value;
  }

  // Scores a new run once it has ended.
  follow() {
    if (!this.seen || isActive() || this.run === state.run) return;
    this.run = state.run;
    const tokens = state.rounds.flatMap((round) => round.tokens).slice(0, this.props.mostTokens);
    this.setup = state.setup;
    this.ids = tokens.map(({ id }) => id);
    this.texts = tokens.map(({ text }) => text);
    this.versions = null;
    this.asker.forget();
    if (tokens.length === 0) return this.draw();
    this.find(".other-seed").value = this.setup.seed + 1;
    this.ask();
  }

  ask() {
    const { ids, setup } = this;
    if (!setup || ids.length === 0) return;
    const { seed, prompt_ids } = setup;
    const other = this.find(".other-seed").value;
    const other_seed = other === "" ? null : Number(other);
    const question = { token_ids: ids, first_position: prompt_ids.length, seed, other_seed };
    const use = (versions) => {
      this.versions = versions;
      this.draw();
    };
    this.asker.ask(() => this.server.marked(question), use);
  }

  draw() {
    this.lit = null;
    const { versions } = this;
    this.find(".scored").replaceChildren(...(versions ? this.tokens(versions[this.chosen]) : []));
    for (const { value, parentElement } of this.inputs)
      setText(parentElement.querySelector(".p"), versions ? pValueOf(versions[value].p_values) : "–");
    const words = versions
      ? about(this.setup, this.ids.length, versions.key.p_values.at(-1), this.props.certain)
      : NOTHING;
    setText(this.find(".about"), words);
    this.drawing.draw();
    this.writeTable();
  }

  tokens({ places, scores }) {
    return places.map((place, i) => {
      const token = make("span", place === i || this.chosen === "less" ? "mark" : "mark changed");
      token.dataset.number = String(i);
      token.style.setProperty("--level", level(scores[i]).toFixed(2));
      token.title = `score ${scores[i].toFixed(2)}`;
      appendText(token, this.texts[place]);
      return token;
    });
  }

  light(element) {
    this.lit = element ? Number(element.dataset.number) : null;
    this.drawing.draw();
  }

  drawFall(width, height) {
    if (!this.versions) return;
    const values = this.names.map((name) => this.versions[name].p_values);
    const lines = values.map((all) => [[0, 1], ...all.map((p, i) => [i + 1, p])]);
    const most = Math.max(...values.map(({ length }) => length));
    const number = this.lit === null ? null : this.lit + 1;
    const index = this.names.indexOf(this.chosen);
    this.fall.draw(lines, { most, low: decades(values.flat()), chosen: index, here: number }, width, height);
  }

  writeTable() {
    const details = this.find("details");
    if (!details.open || !this.versions) return;
    const texts = this.texts.map(visible);
    const name = this.inputs.find(({ checked }) => checked).parentElement.querySelector("span").textContent;
    tableOf(details.querySelector(".scroll"), {
      caption: `Scores, ${name}, and the p-value up to each token`,
      columns: ["#", "token", "score", "p-value"],
      rows: rows(texts, this.versions[this.chosen]),
    });
  }
}

export function mount(element, props, server) {
  new Watermark(element, props, server);
  const way = document.querySelector("#lossless-controls .below");
  way?.addEventListener("click", () => element.scrollIntoView());
}
