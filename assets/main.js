// Mounts the panels of the page. Every panel is a view of the store (shared/store.js).

import { isTeaching, KEPT } from "./classroom/teaching.js";
import { conversation, mountPrompts } from "./decode/chat.js";
import { mountDrawer } from "./decode/drawer.js";
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

// What receives the server's updates for a panel.
const run = { ...store, isActive: store.isExpecting };
const STREAMS = { feed: run, loads: { receive: receiveLoads } };

// A panel that the first screen does not need is `panel.js` in a folder of its name. It is fetched when its tab opens.
const FOLDERS = { codec_lab: "codecs", experiments_lab: "experiments", lossless: "losslessness" };
const LATER = {
  class_bar: () => atLessons.then(() => import("./classroom/lecturer.js")).then((panel) => panel.mountClassBar),
  classroom: () => import("./classroom/lecturer.js").then((panel) => panel.mountClassroom),
  lesson: () => atLessons.then(() => import("./lessons/panel.js")).then((panel) => panel.mountLesson),
};

async function later(name) {
  if (LATER[name]) return LATER[name]();
  const panel = await import(`./${FOLDERS[name] ?? name}/panel.js`);
  if (panel.run) STREAMS[name] = panel.run;
  return panel.mount;
}

// A run learns of the server's functions and of a lost connection, and Gradio's buttons learn of its begin and end.
function connect(run, server, trigger) {
  if (!run?.connect) return;
  run.connect(server);
  watchConnection(run);
  let isActive = false;
  run.subscribe(() => {
    if (isActive === run.isActive()) return;
    isActive = !isActive;
    trigger("select");
  });
}

// The bars of a lesson and of a class stay hidden until a lesson is opened or a class has begun.
let toLessons;
const atLessons = new Promise((done) => (toLessons = done));
const asked = new URLSearchParams(location.search);
if (asked.has("lesson") || asked.has("lecture") || isTeaching()) toLessons();
addEventListener("storage", ({ key }) => key === KEPT && isTeaching() && toLessons()); // another window opened a room

// A link of the page to a lesson opens the lesson without a reload, so a run goes on.
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
  connect(STREAMS[name], server, trigger);
  view(element, props, server, trigger);
  dispatchEvent(new Event("slides")); // the new tab may add slides
}

export const receive = (name, text) => STREAMS[name]?.receive(text);

// Gradio's events reach the store through this object, because they cannot call a module.
window.specdec = { run, chosenTree: store.chosenTree, conversation, store };

addEventListener("submit", (event) => event.preventDefault(), true); // scripts handle all forms, including those that are still loading
mountGlossary();
