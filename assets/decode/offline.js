// A saved page: the same panels, with one run and without a server.

import { METHODS } from "../shared/catalogue.js";
import { mountFocus } from "../shared/focus.js";
import { mountGlossary } from "../shared/glossary.js";
import { select, show, state } from "../shared/store.js";
import { parse, toRun } from "../shared/trace.js";
import { reducedMotion } from "../shared/view.js";
import { play } from "./player.js";
import { mountRace } from "./race.js";
import { mountStatistics } from "./statistics.js";
import { mountStepper } from "./stepper.js";
import { mountText } from "./text.js";
import { mountTree } from "./tree.js";

const MOUNTS = {
  text: mountText,
  stepper: mountStepper,
  tree: mountTree,
  race: mountRace,
  statistics: mountStatistics,
};

export const about = () => document.querySelector(".about");

export function start() {
  prepare();
  present(document.getElementById("trace").textContent, "This page needs no network.");
  if (document.body.hasAttribute("data-framed"))
    select(0); // a notebook may hold many frames, and they must not all play
  else begin(play);
}

// Mounts the panels before there is a run.
export function prepare() {
  document.body.dataset.phase = "idle";
  document.body.toggleAttribute("data-recorded", true);
  for (const [name, mount] of Object.entries(MOUNTS)) mount(document.getElementById(name), { models: [] });
  mountFocus();
  mountGlossary();
  window.specdec = { store: { state } };
}

// Shows a run, which is given as JSON, and describes it.
export function present(text, note) {
  const run = toRun(parse(text));
  describe(run.setup, note);
  show(run, { name: "file", title: "", look: "", twin: null });
}

// Describes the shown run. note: a text after the description.
export function describe({ method, seed, models }, note) {
  document.body.dataset.method = method;
  const names = models.map(({ role, name }) => `${role} ${name}`).join(", ");
  about().textContent = `${METHODS[method]}, ${names}, seed ${seed}. ${note}`;
}

// Plays the run. If the visitor prefers reduced motion, shows its end instead.
export function begin(act) {
  if (reducedMotion()) select(Infinity);
  else act();
}
