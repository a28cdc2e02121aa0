// A saved page: the same panels with one run and no server.

import { METHODS } from "../shared/catalogue.js";
import { mountGlossary } from "../shared/glossary.js";
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

const dark = matchMedia("(prefers-color-scheme: dark)");
const paint = () => document.documentElement.classList.toggle("dark", dark.matches);

export function start() {
  paint();
  dark.addEventListener("change", paint);
  document.body.dataset.phase = "idle";
  document.body.toggleAttribute("data-recorded", true);
  const run = toRun(parse(document.getElementById("trace").textContent));
  const { method, seed, models } = run.setup;
  document.body.dataset.method = method;
  const names = models.map(({ role, name }) => `${role} ${name}`).join(", ");
  document.querySelector(".about").textContent =
    `${METHODS[method]}, ${names}, seed ${seed}. This page needs no network.`;
  for (const [name, mount] of Object.entries(MOUNTS)) mount(document.getElementById(name), { models: [] });
  mountGlossary();
  show(run, { name: "file", title: "", look: "", twin: null });
  const framed = document.body.hasAttribute("data-framed"); // a notebook may hold many frames, which must not all play
  if (framed) select(0);
  else if (matchMedia("(prefers-reduced-motion: reduce)").matches) select(Infinity);
  else play();
  window.specdec = { store: { state } };
}
