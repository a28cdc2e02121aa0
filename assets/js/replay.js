// Recorded runs: chosen from the list, named by the address (/?trace=name), or opened from a file.

import { pause, play } from "./player.js";
import { hasParked, isActive, seek, select, show, state, subscribe, unpark } from "./store.js";
import { saveAs } from "./save.js";
import { MOST_BYTES, parse, toRun } from "./trace.js";
import { onFrame, setText } from "./view.js";

const OWN = "own"; // the visitor's own run
const FILE = "file"; // one from a file
const calm = matchMedia("(prefers-reduced-motion: reduce)");

class Replay {
  constructor(element, { folder, entries }) {
    Object.assign(this, { element, folder, entries, asked: 0 });
    const find = (selector) => element.querySelector(selector);
    [this.choose, this.look, this.error] = [".choose", ".look", ".replay-error"].map(find);
    [this.there, this.twin, this.file, this.link] = [".there", ".twin", "input[type=file]", ".link"].map(find);
    this.choose.addEventListener("change", () => this.chosen(this.choose.value));
    this.there.addEventListener("click", () => this.goThere());
    this.twin.addEventListener("click", () => this.switchTwin());
    this.file.addEventListener("change", () => this.opened(this.file.files[0]));
    this.link.addEventListener("click", () => this.copyLink());
    find(".save").addEventListener("click", (event) => this.save(event.target.closest("button")?.dataset.save));
    subscribe(onFrame(() => this.draw()));
  }

  tell(message) {
    setText(this.error, message);
    this.error.hidden = message === "";
  }

  // What the page opens with: the run that the address names, or the first one. A run that the visitor has
  // begun meanwhile is left alone.
  async open() {
    const wanted = new URLSearchParams(location.search).get("trace");
    const entry = this.entries.find(({ name }) => name === wanted);
    if (wanted && !entry) this.tell(`There is no recorded run “${wanted.slice(0, 60)}”. Choose one from the list.`);
    if (entry ?? this.entries[0]) await this.load(entry ?? this.entries[0]);
  }

  async load(entry, at = null) {
    const asked = (this.asked += 1);
    try {
      const response = await fetch(new URL(`${this.folder}/${entry.name}.json`, document.baseURI).href);
      if (!response.ok) throw new Error(`the server answered ${response.status}`);
      const value = parse(await response.text());
      if (asked !== this.asked || isActive()) return;
      this.present(value, entry, at);
    } catch (error) {
      this.tell(`“${entry.title}” could not be loaded: ${error.message}.`);
    }
  }

  // Plays by itself, unless the visitor's system asks for little motion: then it stands where there is most to see.
  present(value, about, at) {
    pause();
    show(toRun(value), about);
    if (at) seek(at.round, at.decision);
    else if (!calm.matches) play();
    else select(about.round ?? 0, about.step ?? 0);
  }

  chosen(name) {
    this.tell("");
    pause();
    const entry = this.entries.find((item) => item.name === name);
    this.address(entry?.name);
    if (entry) this.load(entry);
    if (name === OWN) unpark();
    this.draw();
  }

  // The link to a recorded run is the page's own address.
  address(name) {
    const url = new URL(location.href);
    if (name) url.searchParams.set("trace", name);
    else url.searchParams.delete("trace");
    history.replaceState(history.state, "", url);
  }

  goThere() {
    pause();
    select(state.recorded.round, state.recorded.step);
  }

  // The same moment of the same set-up with the other method.
  async switchTwin() {
    const entry = this.entries.find(({ name }) => name === state.recorded.twin);
    pause();
    this.address(entry.name);
    await this.load(entry, { round: state.selected.round, decision: Infinity });
  }

  async opened(file) {
    this.file.value = "";
    if (!file) return;
    this.tell("");
    try {
      if (file.size > MOST_BYTES) throw new Error(`the file has ${(file.size / 1e6).toFixed(1)} MB; at most ${MOST_BYTES / 1e6} MB can be opened`);
      const value = parse(await file.text());
      if (isActive()) throw new Error("a run is going on; stop it first");
      this.address(null);
      this.present(value, { name: FILE, title: file.name, look: "", twin: null });
    } catch (error) {
      this.tell(`${file.name} was not opened: ${error.message}.`);
    }
  }

  async copyLink() {
    this.address(state.recorded?.name);
    await navigator.clipboard?.writeText(location.href).catch(() => {});
    setText(this.link, "copied");
    setTimeout(() => setText(this.link, "Copy link"), 1500);
  }

  async save(what) {
    if (!what || state.rounds.length === 0) return;
    this.tell("");
    try {
      await saveAs(what);
    } catch (error) {
      this.tell(`Nothing was saved: ${error.message}.`);
    }
  }

  draw() {
    const { recorded } = state;
    document.body.toggleAttribute("data-recorded", recorded !== null);
    const busy = isActive();
    this.choose.disabled = this.file.disabled = busy;
    const own = this.choose.querySelector(`option[value=${OWN}]`);
    own.hidden = own.disabled = recorded !== null && !hasParked();
    const opened = this.choose.querySelector(`option[value=${FILE}]`);
    opened.hidden = opened.disabled = recorded?.name !== FILE;
    if (recorded?.name === FILE) setText(opened, recorded.title);
    const value = recorded?.name ?? OWN;
    if (this.choose.value !== value) this.choose.value = value;
    setText(this.look, recorded ? recorded.look : busy ? "" : "This is your own run.");
    this.there.hidden = recorded?.round === undefined;
    this.twin.hidden = !recorded?.twin;
    if (recorded?.twin) setText(this.twin, `The same with ${recorded.twin.split("-").at(-1).toUpperCase()}`);
    this.link.hidden = !recorded || recorded.name === FILE;
    for (const button of this.element.querySelectorAll("[data-save]")) button.disabled = state.rounds.length === 0 || busy;
  }
}

export function mountReplay(element, props) {
  new Replay(element, props).open();
}
