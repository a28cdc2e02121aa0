// A saved page: the same panels, one run, no server.

import { select, show, state } from "../shared/store.js";
import { parse, toRun } from "../shared/trace.js";
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
const METHODS = { ar: "Autoregressive decoding", gsd: "GSD", ersd: "ERSD" };

export function start() {
  document.body.dataset.phase = "idle";
  document.body.toggleAttribute("data-recorded", true);
  const run = toRun(parse(document.getElementById("trace").textContent));
  const { method, seed, models } = run.setup;
  const names = models.map(({ role, name }) => `${role} ${name}`).join(", ");
  document.querySelector(".about").textContent =
    `${METHODS[method]}, ${names}, seed ${seed}. This page needs no network.`;
  for (const [name, mount] of Object.entries(MOUNTS)) mount(document.getElementById(name), { models: [] });
  show(run, { name: "file", title: "", look: "", twin: null });
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) select(Infinity);
  else play();
  window.specdec = { store: { state } };
}
