// The page in such a frame: it plays the run that its address names, in the panels of a saved page.

import { urlOf } from "../shared/server.js";
import { SETTINGS } from "../shared/settings.js";
import { begin as decode, state, subscribe } from "../shared/store.js";
import { make, makeButton } from "../shared/view.js";
import { about, begin, describe, prepare, present } from "./offline.js";
import { play } from "./player.js";

const NAME = /^[\w-]+$/;

export function start() {
  prepare();
  const query = new URLSearchParams(location.search);
  if (query.has("prompt")) offer(query);
  else presentRecorded(query.get("trace") ?? "opening");
}

async function presentRecorded(name) {
  try {
    present(await recordedRun(name), "");
    playHere();
  } catch (error) {
    about().textContent = error.message;
  }
}

// A recorded run as JSON.
async function recordedRun(name) {
  if (!NAME.test(name)) throw new Error(`“${name.slice(0, 60)}” is not the name of a recorded run.`);
  const answer = await fetch(urlOf(`files/traces/${name}.json`));
  if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
  return answer.text();
}

// The settings of an address as parameters of the endpoint, which has defaults for the others.
function parametersOf(query) {
  const inAddress = SETTINGS.filter(({ address }) => query.has(address));
  const valueIn = ({ kind, address }) => {
    const text = query.get(address);
    return kind === "number" ? Number(text) : kind === "flag" ? ["1", "true"].includes(text) : text;
  };
  return { topology: "optimal", ...Object.fromEntries(inAddress.map((setting) => [setting.name, valueIn(setting)])) };
}

// The server decodes a run only after a press: the frame may be one of many on a page that nobody reads.
function offer(query) {
  const button = makeButton("", "Decode this run", () => {
    about().textContent = "The server decodes the run …";
    decode(parametersOf(query));
  });
  about().append(button, ` “${query.get("prompt").slice(0, 200)}”`);
  let { phase } = state;
  subscribe(() => {
    if (state.phase === phase) return;
    phase = state.phase;
    if (phase === "error") about().textContent = state.message;
    if (phase !== "done") return;
    describe(state.setup, "");
    playHere();
  });
}

function playHere() {
  about().append(wholePage());
  begin(() => whenSeen(play));
}

function wholePage() {
  const link = Object.assign(make("a", "", "Open the whole page"), { target: "_blank" });
  link.href = new URL(`.${location.search}`, document.baseURI).href;
  return link;
}

// Runs when the frame becomes visible on the screen.
function whenSeen(act) {
  const observer = new IntersectionObserver(([{ isIntersecting }]) => {
    if (!isIntersecting) return;
    observer.disconnect();
    act();
  });
  observer.observe(document.getElementById("text"));
}
