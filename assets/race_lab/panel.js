// The race laboratory: distributions to set, one race on shared random numbers with GSD beside it, many races.

import { offer } from "../page/setup.js";
import { Asker, presetMenu } from "../shared/lab_view.js";
import { digits, quoted, share, visible } from "../shared/labels.js";
import { state as run, selectedRound, subscribe } from "../shared/store.js";
import { fillRows, fillTable, make, makeButton, makeOutput, onFrame, setText } from "../shared/view.js";
import { Drafts } from "./drafts.js";
import { Lanes } from "./lanes.js";
import * as model from "./model.js";
import { Results } from "./results.js";
import { setupOf } from "./setup.js";

const START_U = 0.5;
const FIRST_SEED = 1; // seed of the 10,000 races when the laboratory opens
const SIDES = { p: "target P", q: "draft Q" };

function tokenRow() {
  const name = Object.assign(make("input", "token-name"), { type: "text", maxLength: 24 });
  return make("div", "token-row", name, ...Object.keys(SIDES).map(probabilitySlider), makeButton("remove", "×"));
}

function probabilitySlider(side) {
  const slider = Object.assign(make("input"), { type: "range", min: 0, max: 1, step: "any" });
  slider.dataset.side = side;
  return make("label", `probability ${side}`, make("span", "", side), slider, makeOutput());
}

class RaceLab {
  constructor(element, props, server) {
    this.server = server;
    this.presets = props.presets;
    this.tokens = [];
    this.u = START_U;
    this.base = null;
    this.find = (selector) => element.querySelector(selector);
    const section = (name) => this.find(`section.${name}`);
    this.race = section("drawn");
    this.gsd = section("gsd");
    this.many = section("many");
    this.asker = new Asker(this.find(".lab-error"), ["many", "drafts"].map(section));
    this.changed = onFrame(() => this.draw());
    const tokens = () => this.tokens;
    this.lanes = new Lanes(this.find(".lanes"), tokens, () => this.dragged());
    this.results = new Results(this.many, props);
    this.drafts = new Drafts(this.find("section.drafts"), props);
    this.listenToPresets();
    this.listenToEditor();
    this.listenToButtons();
    this.load(props.presets[0]);
    this.simulate(FIRST_SEED);
    offer("race", setupOf(this, { u: START_U, many: FIRST_SEED }));
  }

  listenToPresets() {
    this.showPreset = presetMenu(this.find, this.presets, (preset) => this.load(preset));
    const button = this.find(".from-run");
    // The position to copy: the selected one, or the last before it in its round for which the small model drafted.
    const step = () =>
      selectedRound()
        ?.steps.slice(0, run.selected.step + 1)
        .findLast(({ winner_q: winner }) => winner !== null);
    subscribe(
      onFrame(() => {
        button.disabled = !step();
        button.title = step()
          ? "Copies the likeliest tokens at the selected position of the run, or at the last position before it that has drafts. All other tokens become one token, “other”"
          : "First generate a text in Watch, and select a position with drafts";
      }),
    );
    button.addEventListener("click", () => {
      if (!step()) return;
      const note = `The likeliest tokens at position ${step().position} of the run in Watch, with the random numbers e of that run. All other tokens are merged into “other”. None of the merged tokens won a race in the run, so “other” does not win here.`;
      this.set(model.fromStep(step(), visible), note);
    });
  }

  listenToEditor() {
    const rows = this.find(".tokens");
    const index = (event) => [...rows.children].indexOf(event.target.closest(".token-row"));
    rows.addEventListener("input", (event) => {
      const i = index(event);
      const { side } = event.target.dataset;
      if (side) {
        this.setProbability(i, side, Number(event.target.value));
        this.own();
      } else this.rename(i, visible(event.target.value));
    });
    // The distribution at the start of a drag is kept until its end, so that the other tokens keep their
    // proportions even if the dragged one reaches 1.
    rows.addEventListener("pointerdown", (event) => {
      const { side } = event.target.dataset;
      this.base = side ? this.tokens.map((token) => token[side]) : null;
    });
    rows.addEventListener("change", () => (this.base = null));
    rows.addEventListener("click", (event) => {
      if (event.target.closest(".remove")) this.remove(index(event));
    });
  }

  listenToButtons() {
    const on = (selector, act) => this.find(selector).addEventListener("click", act);
    on(".add", () => this.add());
    on(".reroll", () => this.reroll(Math.floor(Math.random() * 2 ** 31)));
    on(".reroll-u", () => this.setU(Math.round(1000 * Math.random()) / 1000));
    on(".run-many", () => this.simulate());
    this.slider = this.gsd.querySelector("input");
    this.slider.addEventListener("input", () => this.setU(Number(this.slider.value)));
  }

  load(preset) {
    const e = preset.e.length > 0 ? preset.e : model.exponentials(model.START_SEED, preset.tokens.length);
    const tokens = preset.tokens.map((name, i) => ({ name, p: preset.p[i], q: preset.q[i], e: e[i] }));
    this.set(tokens, preset.note, preset);
  }

  // preset: the name of the example with these tokens, or null. seed: the seed of the race, if there is one.
  set(tokens, note, preset = null) {
    Object.assign(this, { tokens, preset, seed: null, moved: false });
    this.showPreset(preset?.id, note);
    this.lawsChanged();
  }

  // After a change by hand, the tokens are no longer those of an example.
  own() {
    this.dropPreset();
    this.lawsChanged();
  }

  // A new name changes no probability, so the measured races stay.
  rename(i, name) {
    this.tokens[i].name = name;
    this.dropPreset();
    this.changed();
  }

  dropPreset() {
    this.preset = null;
    this.showPreset(null);
  }

  dragged() {
    this.moved = true;
    this.changed();
  }

  setProbability(i, side, value) {
    const base = this.base ?? this.tokens.map((token) => token[side]);
    model.withEntry(base, i, Math.round(1000 * value) / 1000).forEach((entry, j) => (this.tokens[j][side] = entry));
  }

  add() {
    const names = new Set(this.tokens.map(({ name }) => name));
    const name = [..."abcdefghij"].find((letter) => !names.has(letter));
    this.tokens.push({ name, p: 0, q: 0, e: model.exponential() });
    for (const side of Object.keys(SIDES)) this.setProbability(this.tokens.length - 1, side, 0.1);
    this.own();
  }

  // The other tokens take over the removed token's probability, in proportion to their own.
  remove(i) {
    if (this.tokens.length <= model.FEWEST) return;
    for (const side of Object.keys(SIDES)) this.setProbability(i, side, 0);
    this.tokens.splice(i, 1);
    this.lanes.drop();
    this.own();
  }

  reroll(seed) {
    this.setRace(model.exponentials(seed, this.tokens.length));
    Object.assign(this, { seed, moved: false });
  }

  setRace(e) {
    this.tokens.forEach((token, i) => (token.e = e[i]));
    this.dragged();
  }

  setU(u) {
    this.u = u;
    this.changed();
  }

  lawsChanged() {
    this.changed();
    this.ask("exact");
  }

  // seed: repeats an earlier simulation. Without a seed, one is drawn.
  simulate(seed = null) {
    this.ask("simulated", { seed });
  }

  ask(name, also = {}) {
    const distributions = () => ({ p: this.tokens.map(({ p }) => p), q: this.tokens.map(({ q }) => q) });
    const use = (result) => [this.results, this.drafts].forEach((view) => view.show(result));
    return this.asker.ask(() => this.server[name]({ ...distributions(), ...also }), use);
  }

  draw() {
    this.drawEditor();
    this.lanes.draw();
    this.drawRace();
    this.drawTest();
  }

  drawEditor() {
    fillRows(this.find(".tokens"), this.tokens, tokenRow, (row, token) => {
      const name = row.querySelector(".token-name");
      if (name !== document.activeElement) name.value = token.name;
      name.setAttribute("aria-label", "Name of the token");
      for (const slider of row.querySelectorAll("[data-side]")) {
        const value = token[slider.dataset.side];
        if (Number(slider.value) !== value) slider.value = value;
        slider.setAttribute("aria-label", `${SIDES[slider.dataset.side]} of ${token.name}`);
        slider.setAttribute("aria-valuetext", share(value));
        setText(slider.nextElementSibling, value.toFixed(3));
      }
      const remove = row.querySelector(".remove");
      remove.disabled = this.tokens.length <= model.FEWEST;
      remove.setAttribute("aria-label", `Remove ${token.name}`);
    });
    this.find(".add").disabled = this.tokens.length >= model.MOST;
  }

  drawRace() {
    const winner = (side) => this.tokens[model.first(this.tokens, side)];
    const [ofDraft, ofTarget] = [winner("q"), winner("p")];
    const same = ofDraft === ofTarget;
    const text = same
      ? `${quoted(ofDraft.name)} arrives first in both races: same winner, accepted.`
      : `${quoted(ofDraft.name)} arrives first under the draft, ${quoted(ofTarget.name)} under the target: different winners, so the draft is rejected and the target's winner replaces it.`;
    this.verdict(this.race, same, text);
    const time = (e, side) => digits(Number.isFinite(model.arrival(e, side)) ? model.arrival(e, side) : null);
    const row = ({ name, p, q, e }) => [name, digits(p), digits(q), digits(e), time(e, q), time(e, p)];
    fillTable(this.race.querySelector("tbody"), this.tokens.map(row));
  }

  drawTest() {
    const { name, p, q } = this.tokens[model.first(this.tokens, "q")];
    const accepted = this.u * q < p;
    const ratio = `p / q = ${digits(p)} / ${digits(q)} = ${digits(p / q)}`;
    const text = accepted
      ? `The drafted token is ${quoted(name)}: u = ${digits(this.u)} < ${ratio}, accepted.`
      : `The drafted token ${quoted(name)} is rejected, because u = ${digits(this.u)} ≥ ${ratio}. The next token is sampled from the residual.`;
    this.verdict(this.gsd, accepted, text);
    this.find(".zone .accept").style.width = `${100 * Math.min(1, p / q)}%`;
    this.slider.value = this.u;
    setText(this.gsd.querySelector("output"), this.u.toFixed(3));
    this.drawResidual();
  }

  drawResidual() {
    const residual = model.residual(this.tokens);
    const [body] = this.gsd.querySelector("table").tBodies;
    const last = (i) => (residual ? digits(residual[i]) : "none: P = Q");
    const row = (token, i) => [token.name, ...[token.p, token.q, model.excess(token)].map(digits), last(i)];
    fillTable(body, this.tokens.map(row));
    [...body.rows].forEach((row, i) => row.style.setProperty("--share", residual ? residual[i] : 0));
  }

  verdict(section, accepted, text) {
    const element = section.querySelector(".verdict");
    setText(element, `${accepted ? "✓" : "✗"} ${text}`);
    element.className = `verdict ${accepted ? "accepted" : "rejected"}`;
  }
}

export const mount = (element, props, server) => new RaceLab(element, props, server);
