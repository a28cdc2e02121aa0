// Mounts the panels of the page; every panel is a view of the store in store.js.

import * as store from "./store.js";
import { mountCodecLab } from "./codec_lab.js";
import { mountExperimentsLab } from "./experiments_lab.js";
import { mountFeed } from "./feed.js";
import { mountReplay } from "./replay.js";
import { remember } from "./save.js";
import { mountRace } from "./race.js";
import { mountRaceLab } from "./race_lab.js";
import { mountStatistics } from "./statistics.js";
import { mountStepper } from "./stepper.js";
import { mountText } from "./text.js";
import { mountTree } from "./tree.js";
import { mountTreeLab } from "./tree_lab.js";

const VIEWS = {
  codec_lab: mountCodecLab,
  experiments_lab: mountExperimentsLab,
  feed: mountFeed,
  race: mountRace,
  replay: mountReplay,
  race_lab: mountRaceLab,
  statistics: mountStatistics,
  stepper: mountStepper,
  text: mountText,
  tree: mountTree,
  tree_lab: mountTreeLab,
};

export function mount(name, element, props, server) {
  remember(name, element);
  VIEWS[name](element, props, server);
}

export const receive = store.receive;

// The buttons' own events reach the store through this: a Gradio event can call no module.
window.specdec = { begin: store.begin, stop: store.stop, ended: store.ended, store };
