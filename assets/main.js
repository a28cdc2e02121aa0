// Mounts the panels of the page; every panel is a view of the store in store.js.

import { isTeaching } from "./classroom/teaching.js";
import { mountDrawer, mountPrompts } from "./decode/drawer.js";
import { mountFeed } from "./decode/feed.js";
import { mountLoads, mountModels, receive as receiveLoads } from "./decode/models.js";
import { mountRace } from "./decode/race.js";
import { mountReplay } from "./decode/replay.js";
import { mountStatistics } from "./decode/statistics.js";
import { mountStepper } from "./decode/stepper.js";
import { mountText } from "./decode/text.js";
import { mountTree } from "./decode/tree.js";
import { watchConnection } from "./page/connection.js";
import { mountProjector } from "./page/projector.js";
import { mountSetup } from "./page/setup.js";
import { mountTabs } from "./page/tabs.js";
import { mountGlossary } from "./shared/glossary.js";
import * as store from "./shared/store.js";

const VIEWS = {
  drawer: mountDrawer,
  feed: mountFeed,
  loads: mountLoads,
  models: mountModels,
  prompts: mountPrompts,
  race: mountRace,
  projector: mountProjector,
  replay: mountReplay,
  setup: (...parts) => [mountTabs(), mountSetup(...parts)],
  statistics: mountStatistics,
  stepper: mountStepper,
  text: mountText,
  tree: mountTree,
};

const RECEIVERS = { feed: store.receive, loads: receiveLoads };

// A panel that the opening does not show is the script `panel.js` of the folder of its name: it is fetched with its tab.
const FOLDERS = { codec_lab: "codecs", experiments_lab: "experiments", lossless: "losslessness" };
const LATER = {
  class_bar: () => atLessons.then(() => import("./classroom/lecturer.js")).then((panel) => panel.mountClassBar),
  classroom: () => import("./classroom/lecturer.js").then((panel) => panel.mountClassroom),
  lesson: () => atLessons.then(() => import("./lessons/panel.js")).then((panel) => panel.mountLesson),
};

async function later(name) {
  if (LATER[name]) return LATER[name]();
  const panel = await import(`./${FOLDERS[name] ?? name}/panel.js`);
  if (panel.run) streamed(name, panel.run);
  return panel.mount;
}

// What the server streams to a panel goes there from now on.
function streamed(name, run) {
  RECEIVERS[name] = run.receive;
  if (run.isActive) watchConnection(run);
}

// The bar of lessons and that of a class lie hidden until somebody looks at lessons, or a class is going on.
let toLessons;
const atLessons = new Promise((done) => (toLessons = done));
const asked = new URLSearchParams(location.search);
if (asked.has("lesson") || isTeaching()) toLessons();

// A link of the page to a lesson opens it here: a run goes on.
addEventListener("click", async (event) => {
  const { target, ctrlKey, metaKey, shiftKey } = event;
  const link = /** @type {Element} */ (target).closest?.('a[href^="?lesson="]');
  if (!link || ctrlKey || metaKey || shiftKey) return;
  event.preventDefault();
  toLessons();
  const { goTo } = await import("./lessons/panel.js");
  goTo(new URLSearchParams(link.getAttribute("href")).get("lesson"));
});

export async function mount(name, element, props, server, trigger) {
  if (name === "lessons" || name === "classroom") toLessons();
  const view = VIEWS[name] ?? (await later(name));
  view(element, props, server, trigger);
  dispatchEvent(new Event("slides")); // a tab has more to show
}

export const receive = (name, text, server) => RECEIVERS[name]?.(text, server);

// The buttons' own events reach the store through this: a Gradio event can call no module.
const { begin, stop, ended, chosenTree } = store;
window.specdec = { begin, stop, ended, chosenTree, store };

addEventListener("submit", (event) => event.preventDefault(), true); // scripts send all forms, those on their way too
mountGlossary();
watchConnection({ isActive: store.isExpecting, breakOff: store.breakOff });
