// Mounts the panels of the page; every panel is a view of the store in store.js.

import { mountYouDraft } from "./be_draft/panel.js";
import { mountClassBar, mountClassroom } from "./classroom/lecturer.js";
import { mountCodecLab } from "./codecs/panel.js";
import { mountCompare } from "./compare/panel.js";
import * as comparison from "./compare/state.js";
import { mountDrawer } from "./decode/drawer.js";
import { mountFeed } from "./decode/feed.js";
import { mountLoads, mountModels, receive as receiveLoads } from "./decode/models.js";
import { mountRace } from "./decode/race.js";
import { mountReplay } from "./decode/replay.js";
import { mountStatistics } from "./decode/statistics.js";
import { mountStepper } from "./decode/stepper.js";
import { mountText } from "./decode/text.js";
import { mountTree } from "./decode/tree.js";
import { mountExperimentsLab } from "./experiments/panel.js";
import { receive as receiveForward } from "./lessons/forward.js";
import { mountLesson, mountLessons } from "./lessons/panel.js";
import { mountLossless } from "./losslessness/panel.js";
import * as check from "./losslessness/state.js";
import { watchConnection } from "./page/connection.js";
import { mountProjector } from "./page/projector.js";
import { mountSetup } from "./page/setup.js";
import { mountRaceLab } from "./race_lab/panel.js";
import { mountGlossary } from "./shared/glossary.js";
import * as store from "./shared/store.js";
import { mountTreeLab } from "./tree_lab/panel.js";
import { mountWatermark } from "./watermark/panel.js";

const VIEWS = {
  be_draft: mountYouDraft,
  class_bar: mountClassBar,
  classroom: mountClassroom,
  codec_lab: mountCodecLab,
  compare: mountCompare,
  drawer: mountDrawer,
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
  watermark: mountWatermark,
};

export function mount(name, element, props, server, trigger) {
  VIEWS[name](element, props, server, trigger);
  dispatchEvent(new Event("slides")); // a tab has more to show
}

const RECEIVERS = {
  compare: comparison.receive,
  feed: store.receive,
  lessons: receiveForward,
  lossless: check.receive,
  loads: receiveLoads,
};

export const receive = (name, text, server) => RECEIVERS[name]?.(text, server);

// The buttons' own events reach the store through this: a Gradio event can call no module.
const { begin, stop, ended, chosenTree } = store;
window.specdec = { begin, stop, ended, chosenTree, store };

mountGlossary();
watchConnection([{ isActive: store.isExpecting, breakOff: store.breakOff }, comparison, check]);
