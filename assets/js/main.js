// Mounts the panels of the page; every panel is a view of the store in store.js.

import * as store from "./store.js";
import { mountCodecLab } from "./codec_lab.js";
import { mountCompare } from "./compare.js";
import * as comparison from "./compare_state.js";
import { watchConnection } from "./connection.js";
import { mountExperimentsLab } from "./experiments_lab.js";
import { mountFeed } from "./feed.js";
import { mountLesson, mountLessons } from "./lessons.js";
import { mountProjector } from "./projector.js";
import { mountLoads, mountModels, receive as receiveLoads } from "./models.js";
import { mountLossless } from "./lossless.js";
import * as check from "./lossless_state.js";
import { mountReplay } from "./replay.js";
import { remember } from "./save.js";
import { mountRace } from "./race.js";
import { mountRaceLab } from "./race_lab.js";
import { mountSetup } from "./setup.js";
import { mountStatistics } from "./statistics.js";
import { mountStepper } from "./stepper.js";
import { mountText } from "./text.js";
import { mountTree } from "./tree.js";
import { mountTreeLab } from "./tree_lab.js";

const VIEWS = {
  codec_lab: mountCodecLab,
  compare: mountCompare,
  experiments_lab: mountExperimentsLab,
  feed: mountFeed,
  lossless: mountLossless,
  loads: mountLoads,
  models: mountModels,
  lesson: mountLesson,
  lessons: mountLessons,
  race: mountRace,
  projector: mountProjector,
  replay: mountReplay,
  race_lab: mountRaceLab,
  setup: mountSetup,
  statistics: mountStatistics,
  stepper: mountStepper,
  text: mountText,
  tree: mountTree,
  tree_lab: mountTreeLab,
};

export function mount(name, element, props, server, trigger) {
  remember(name, element);
  VIEWS[name](element, props, server, trigger);
}

const RECEIVERS = { compare: comparison.receive, feed: store.receive, lossless: check.receive, loads: receiveLoads };

export const receive = (name, text, server) => RECEIVERS[name]?.(text, server);

// The buttons' own events reach the store through this: a Gradio event can call no module.
const { begin, stop, ended, chosenTree } = store;
window.specdec = { begin, stop, ended, chosenTree, store };

watchConnection([{ isActive: store.isExpecting, breakOff: store.breakOff }, comparison, check]);
