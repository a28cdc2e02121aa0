// Mounts the panels of the page. Every panel is a view of the store (shared/store.js).

import { isTeaching, KEPT } from "./classroom/teaching.js";
import { mountAside } from "./decode/aside.js";
import { mountPrompts } from "./decode/chat.js";
import { mountDrawer } from "./decode/drawer.js";
import { mountFeed } from "./decode/feed.js";
import { mountRace } from "./decode/race.js";
import { mountReplay } from "./decode/replay.js";
import { mountStatistics } from "./decode/statistics.js";
import { mountStepper } from "./decode/stepper.js";
import { mountText } from "./decode/text.js";
import { mountTree } from "./decode/tree.js";
import { mountModels } from "./page/models.js";
import { mountPair } from "./page/pair.js";
import { mountProjector } from "./page/projector.js";
import { mountSetup, tell } from "./page/setup.js";
import { mountTabs, onTab } from "./page/tabs.js";
import { mountFocus } from "./shared/focus.js";
import { mountGlossary } from "./shared/glossary.js";
import { prepareServer, serverOf } from "./shared/server.js";
import * as store from "./shared/store.js";

const VIEWS = {
  drawer: mountDrawer,
  feed: mountFeed,
  models: mountModels,
  shown_pair: mountPair,
  prompts: mountPrompts,
  race: mountRace,
  projector: mountProjector,
  replay: mountReplay,
  result: mountAside,
  setup: mountSetup,
  shown: (_, { updates }) => store.receiveAll(updates), // the run of a panel that is served alone
  statistics: mountStatistics,
  stepper: mountStepper,
  text: mountText,
  tree: mountTree,
};

// The script of every other panel is `panel.js` in the folder of its name, fetched when its view opens.
const FOLDERS = { codec_lab: "codecs", experiments_lab: "experiments", lossless: "losslessness" };
const LATER = {
  class_bar: () => atLessons.then(() => import("./classroom/lecturer.js")).then((panel) => panel.mountClassBar),
  classroom: () => import("./classroom/lecturer.js").then((panel) => panel.mountClassroom),
  lesson: () => atLessons.then(() => import("./lessons/panel.js")).then((panel) => panel.mountLesson),
};

async function later(name) {
  if (LATER[name]) return LATER[name]();
  return (await import(`./${FOLDERS[name] ?? name}/panel.js`)).mount;
}

// Calls `load`, which fetches a script. If there is no connection, it calls `load` again as soon as there is one.
async function whenOnline(load) {
  try {
    return await load();
  } catch (error) {
    if (navigator.onLine) throw error;
    await new Promise((resolve) => addEventListener("online", resolve, { once: true }));
    return whenOnline(load);
  }
}

// The bars of a lesson and of a class stay hidden until a lesson is opened or a class has begun.
let toLessons;
const atLessons = new Promise((resolve) => (toLessons = resolve));
const query = new URLSearchParams(location.search);
if (query.has("lesson") || query.has("lecture") || isTeaching()) toLessons();
addEventListener("storage", ({ key }) => key === KEPT && isTeaching() && toLessons()); // another window opened a room

// A link of the page to a lesson opens the lesson without a reload, so a run goes on.
addEventListener("click", async (event) => {
  const { target, ctrlKey, metaKey, shiftKey } = event;
  const link = /** @type {Element} */ (target).closest?.('a[href^="?lesson="]');
  if (!link || ctrlKey || metaKey || shiftKey) return;
  event.preventDefault();
  toLessons();
  const { goTo } = await whenOnline(() => import("./lessons/panel.js"));
  goTo(new URLSearchParams(link.getAttribute("href")).get("lesson"));
});

const NOT_THERE = "A part of this page could not be loaded. Load the page again.";
const props = JSON.parse(document.getElementById("props")?.textContent ?? "{}");
const mounted = new Set();

// Mounts the panels within an element that are not mounted yet.
function mountAll(root) {
  const panels = [...(root.matches("[data-panel]") ? [root] : []), ...root.querySelectorAll("[data-panel]")];
  for (const element of panels) {
    if (mounted.has(element)) continue;
    mounted.add(element);
    mount(element);
  }
}

async function mount(element) {
  const { panel: name } = element.dataset;
  if (name === "lessons" || name === "classroom") toLessons();
  try {
    const view = VIEWS[name] ?? (await whenOnline(() => later(name)));
    view(element, props[name], serverOf(name));
    dispatchEvent(new Event("slides")); // the new panel may have slides
  } catch (error) {
    reportError(error);
    tell([NOT_THERE]);
  }
}

window.specdec = { store };

// If a visitor presses a button before the script of its panel has arrived, the press is repeated for the script.
addEventListener("click", ({ target }) => {
  const button = /** @type {HTMLElement | null} */ (/** @type {Element} */ (target).closest?.("#lossless-run"));
  if (button) button.dataset.pressed = "";
});
addEventListener("submit", (event) => event.preventDefault(), true); // scripts handle all forms, including those that are still loading
prepareServer();
mountFocus();
mountGlossary();
// These panels are mounted at the start: other views need the run, and the run's panels name the models.
for (const part of document.querySelectorAll("main > :not(#tabs), #tab-live, #models")) mountAll(part);
onTab(mountAll);
mountTabs();
