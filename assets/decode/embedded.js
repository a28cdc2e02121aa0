// The page in such a frame: it plays the run that its address names, in the panels of a saved page.

import { make, makeButton } from "../shared/view.js";
import { decodedRun, recordedRun } from "./fetched.js";
import { about, begin, prepare, present } from "./offline.js";
import { play } from "./player.js";

export function start() {
  prepare();
  const parameters = new URLSearchParams(location.search);
  if (parameters.has("prompt")) offer(parameters);
  else presentRun(recordedRun(parameters.get("trace") ?? "opening"));
}

// The server decodes a run only after a press: the frame may be one of many on a page that nobody reads.
function offer(parameters) {
  const button = makeButton("", "Decode this run", () => {
    about().textContent = "The server decodes the run …";
    presentRun(decodedRun(parameters));
  });
  about().append(button, ` “${parameters.get("prompt").slice(0, 200)}”`);
}

// run: a promise of a run as JSON.
async function presentRun(run) {
  try {
    present(await run, "");
    about().append(wholePage());
    begin(() => whenSeen(play));
  } catch (error) {
    about().textContent = error.message;
  }
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
