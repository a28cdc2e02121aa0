// Mounts the panels of the page; every panel is a view of the store in store.js.

import * as store from "./store.js";
import { mountFeed } from "./feed.js";
import { mountRace } from "./race.js";
import { mountStatistics } from "./statistics.js";
import { mountStepper } from "./stepper.js";
import { mountText } from "./text.js";
import { mountTree } from "./tree.js";

const VIEWS = {
  feed: mountFeed,
  race: mountRace,
  statistics: mountStatistics,
  stepper: mountStepper,
  text: mountText,
  tree: mountTree,
};

export const mount = (name, element, props) => VIEWS[name](element, props);
export const receive = store.receive;

// The buttons' own events reach the store through this: a Gradio event can call no module.
window.specdec = { begin: store.begin, stop: store.stop, ended: store.ended, store };
