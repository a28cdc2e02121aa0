// Recorded runs: chosen from the list, named in the address (/?trace=name), or opened from a file.

import { copyLink, copyText, offer, onFields, writeAddress } from "../page/setup.js";
import * as store from "../shared/store.js";
import { checkSize, parse, toRun } from "../shared/trace.js";
import { onFrame, reducedMotion, setMessage, setText, setTextFor } from "../shared/view.js";
import { frameCode } from "./embed.js";
import { adopt, changedWords, readopt } from "./fields.js";
import { keptRun, lostRun, mountKept } from "./kept.js";
import { setStage, showStills, story } from "./opening.js";
import { isPlaying, narration, onPlayer, pause, play } from "./player.js";
import { saveAs } from "./save.js";

const { state } = store;

const LINKED = "The settings of this link are ready to run. Below is a recorded run.";
const OWN = "own"; // the visitor's own run
const FILE = "file"; // a run from a file
const [CODE, CHAT] = ["code", "opening"]; // recorded runs; the second one is for visitors who do not read code

class Replay {
  constructor(element, { folder, entries, mostBytes, player, settings, note }) {
    this.element = element;
    this.note = note ? `\n${note}` : ""; // how to get the chat model if its weights are missing
    this.player = player; // address of the page that plays a run offline
    this.linked = false; // whether the settings of a link wait to be run
    this.settings = settings; // names of a run's settings in the address
    this.folder = folder;
    this.entries = entries;
    this.mostBytes = mostBytes;
    this.asked = 0;
    const find = (selector) => element.querySelector(selector);
    this.choose = find(".choose");
    this.look = find(".look");
    this.error = find(".replay-error");
    this.there = find(".there");
    this.twin = find(".twin");
    this.file = find("input[type=file]");
    this.link = find(".link");
    this.embed = find(".embed");
    this.choose.addEventListener("change", () => this.chosen(this.choose.value));
    this.there.addEventListener("click", () => this.goThere());
    this.twin.addEventListener("click", () => this.switchTwin());
    this.file.addEventListener("change", () => this.opened(this.file.files[0]));
    this.link.addEventListener("click", () => this.copied(this.link, copyLink));
    this.embed.addEventListener("click", () => this.copied(this.embed, () => copyText(frameCode(this.isListed))));
    const menu = find(".save");
    menu.addEventListener("click", (event) => this.save(event.target.closest("button")?.dataset.save));
    mountMenu(menu);
    find(".chat").addEventListener("click", () => this.chosen(CHAT));
    find(".go").addEventListener("click", () => document.getElementById("generate").click());
    const draw = onFrame(() => this.draw());
    store.subscribe(draw);
    onPlayer(draw);
    onFields(draw);
  }

  tell(message) {
    setMessage(this.error, message);
  }

  // The address's fields for the run that is shown: its name and the position, counted from 1.
  get fields() {
    const count = { kind: "number", default: null, least: 1, whole: true };
    return { trace: { kind: "text", default: this.entries[0]?.name ?? "" }, round: count, decision: count };
  }

  // Whether the shown run is one of the page's recorded runs.
  get isListed() {
    return this.entries.some(({ name }) => name === state.recorded?.name);
  }

  setup() {
    if (!this.isListed) return {};
    const moving = isPlaying() || state.follow;
    const { round } = state.selected;
    const place =
      moving || (round <= 0 && state.decision <= 0) ? {} : { round: round + 1, decision: state.decision + 1 };
    return { trace: state.recorded.name, ...place };
  }

  // Chooses what the page shows first. After a reload it is the visitor's own run, or no run if the reload
  // ended the visitor's first one. Otherwise it is the first recorded run, which does not play if the page
  // was opened by a link with settings.
  begin() {
    const run = keptRun();
    const names = [...new URLSearchParams(location.search).keys()];
    if (run) return store.restore(run);
    this.linked = lostRun() !== "" || names.some((name) => this.settings.includes(name));
    return lostRun() ? this.draw() : this.setUp({ trace: this.fields.trace.default });
  }

  // Opens the run that the address names, or the first one, unless the visitor has begun a run meanwhile.
  async setUp(values) {
    const entry = this.entries.find(({ name }) => name === values.trace);
    if (!entry) this.tell(`There is no recorded run “${values.trace.slice(0, 60)}”. Choose one from the list.`);
    const moment = values.round && { round: values.round - 1, decision: (values.decision ?? Infinity) - 1 };
    if (entry ?? this.entries[0]) await this.load(entry ?? this.entries[0], entry ? moment : null);
    return entry && moment ? this.misplaced(values) : [];
  }

  misplaced({ trace, round, decision }) {
    const count = state.rounds.length;
    if (round > count)
      return [`round = ${round} in the address: the run “${trace}” has ${count} rounds; its last one is shown.`];
    const decisions = store.decisionsOf(round - 1).length;
    return decision > decisions
      ? [`decision = ${decision} in the address: round ${round} has ${decisions} decisions; its last one is shown.`]
      : [];
  }

  async load(entry, moment = null) {
    const number = (this.asked += 1);
    const { run } = state;
    try {
      const value = await this.fetched(entry.name);
      if (number !== this.asked || store.isActive() || state.run !== run) return;
      this.present(value, entry, moment);
    } catch (error) {
      this.tell(`“${entry.title}” could not be loaded: ${error.message}.`);
    }
  }

  async fetched(name) {
    const response = await fetch(new URL(`${this.folder}/${name}.json`, document.baseURI).href);
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    return toRun(parse(await response.text()));
  }

  // Shows a run and plays it. If the visitor prefers reduced motion, it shows the most instructive moment instead.
  present(run, entry, moment) {
    pause();
    setStage("");
    store.show(run, entry);
    const isOpening = [this.entries[0]?.name, CHAT].includes(entry.name);
    if (moment) store.seek(moment.round, moment.decision);
    else if (this.linked) store.showAll();
    else if (reducedMotion()) isOpening ? showStills() : store.showAll();
    else play(isOpening ? story() : [{}]);
    adopt(run.setup, entry === this.entries[0]);
    writeAddress();
  }

  chosen(name) {
    this.tell("");
    pause();
    this.linked = false;
    const entry = this.entries.find((item) => item.name === name);
    if (entry) this.load(entry);
    if (name === OWN) {
      store.unpark();
      readopt();
    }
    this.draw();
  }

  // Whether the recorded run already shows its most instructive moment.
  isThere() {
    const { recorded, selected, veiled } = state;
    return !veiled && selected.round === recorded.round && selected.step === recorded.step;
  }

  goThere() {
    pause();
    store.select(state.recorded.round, state.recorded.step);
  }

  // Shows the recorded run of the other method with the same settings, at the same moment.
  async switchTwin() {
    const entry = this.entries.find(({ name }) => name === state.recorded.twin);
    pause();
    await this.load(entry, { round: state.selected.round, decision: Infinity });
  }

  async opened(file) {
    this.file.value = "";
    if (!file) return;
    this.tell("");
    try {
      checkSize(file.size, this.mostBytes);
      const run = toRun(parse(await file.text(), this.mostBytes));
      if (store.isActive()) throw new Error("a run is in progress; stop it first");
      this.present(run, { name: FILE, title: file.name, look: "", twin: null });
    } catch (error) {
      this.tell(`${file.name} was not opened: ${error.message}.`);
    }
  }

  async copied(button, copy) {
    button.dataset.label ??= button.textContent; // not what a press before this one wrote
    if (!(await copy())) return;
    setTextFor(button, "copied", 1500, button.dataset.label);
  }

  async save(format) {
    if (!format || state.rounds.length === 0) return;
    this.tell("");
    try {
      await saveAs(format, this.player);
    } catch (error) {
      this.tell(`Nothing was saved: ${error.message}.`);
    }
  }

  // Shows one line below the list: what to look at in the recorded run, or a note about the settings of a link.
  drawWords() {
    const { recorded } = state;
    const isFirst = recorded ? recorded.name === this.entries[0]?.name : state.run === null;
    const waits = this.linked && isFirst && state.phase === "idle";
    this.linked = waits; // later the page may have no run again
    document.body.toggleAttribute("data-linked", waits);
    const changes = changedWords();
    const words = changes || narration() || (recorded ? recorded.look + this.note : "");
    setText(this.look, waits ? lostRun() || LINKED : words);
    this.element.querySelector(".go").hidden = !waits;
    this.drawOffer(waits || changes !== "");
  }

  // Shows the buttons beside the line about the run. isTaken: whether another sentence needs their place.
  drawOffer(isTaken) {
    const { recorded } = state;
    this.element.querySelector(".chat").hidden = isTaken || recorded?.name !== CODE;
    this.there.hidden = isTaken || recorded?.round === undefined || isPlaying() || this.isThere();
    this.twin.hidden = isTaken || !recorded?.twin;
    if (recorded?.twin) setText(this.twin, `With ${recorded.twin.split("-").at(-1).toUpperCase()}`);
  }

  draw() {
    const { recorded } = state;
    document.body.toggleAttribute("data-recorded", recorded !== null);
    const busy = store.isActive();
    this.choose.disabled = this.file.disabled = busy;
    const own = this.choose.querySelector(`option[value=${OWN}]`);
    own.hidden = own.disabled = recorded !== null && !store.hasParked();
    const option = this.choose.querySelector(`option[value=${FILE}]`);
    option.hidden = option.disabled = recorded?.name !== FILE;
    if (recorded?.name === FILE) setText(option, recorded.title);
    const value = recorded?.name ?? OWN;
    if (this.choose.value !== value) this.choose.value = value;
    this.drawWords();
    this.link.hidden = !recorded || recorded.name === FILE;
    // An embedded run begins without earlier turns.
    this.embed.hidden = recorded?.name === FILE || (recorded === null && state.setup?.history?.length > 0);
    this.embed.disabled = state.rounds.length === 0 || busy;
    for (const button of this.element.querySelectorAll("[data-save]"))
      button.disabled = state.rounds.length === 0 || busy;
  }
}

// Closes a menu after a choice, on Escape and on a press elsewhere, but not after Copy, whose label then says “Copied”.
function mountMenu(menu) {
  document.addEventListener("click", (event) => {
    const target = /** @type {Element} */ (event.target);
    if (!menu.contains(target) || target.closest("button:not(.link, .embed)")) menu.open = false;
  });
  menu.addEventListener("keydown", ({ key }) => {
    if (key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
}

export function mountReplay(element, props) {
  const replay = new Replay(element, props);
  const { fields } = replay;
  const part = { fields, get: () => replay.setup(), set: (values) => replay.setUp(values) };
  if (!offer("run", part, Object.keys(fields))) replay.begin();
  mountKept();
}
