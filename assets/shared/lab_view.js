// Tools that the laboratories' views share.

import { setMessage } from "./view.js";

// Calls `draw(width, height)` now and whenever the element's size changes; never while it is hidden.
export function onSize(element, draw) {
  let [width, height] = [0, 0];
  new ResizeObserver(() => {
    const { clientWidth, clientHeight } = element;
    if (clientWidth === 0 || (clientWidth === width && clientHeight === height)) return;
    [width, height] = [clientWidth, clientHeight];
    draw(width, height);
  }).observe(element);
}

// Fills the menu of examples. It gets one more entry, “own values”, which is shown after a change by hand and
// cannot be chosen.
export function presetMenu(select, presets, load) {
  select.append(...presets.map(({ id, name }) => new Option(name, id)));
  select.append(Object.assign(new Option("own values", "own"), { hidden: true }));
  select.addEventListener("change", () => load(presets.find(({ id }) => id === select.value)));
}

const UNANSWERED = "The server did not answer. Try again.";

// Asks the server questions, one at a time. If several questions arrive while an answer is awaited, only the
// last of them is sent. Errors are shown in `box`, and the element `busy` is marked while an answer is
// awaited.
export class Asker {
  number = 0;
  asking = null;

  constructor(box, busy = null) {
    this.box = box;
    this.busy = busy;
  }

  // Ignores the answers that have not come yet.
  forget() {
    this.number += 1;
  }

  // question(): sends the question. use(answer): called with the answer to the newest question, unless it is
  // an error.
  async ask(question, use) {
    const number = ++this.number;
    this.busy?.setAttribute("aria-busy", "true");
    if (this.asking) await this.asking.catch(() => {});
    if (number !== this.number) return;
    this.asking = question();
    const answer = (await this.asking.catch(() => null)) ?? { error: UNANSWERED }; // there is no connection
    if (number !== this.number) return;
    this.busy?.setAttribute("aria-busy", "false");
    setMessage(this.box, answer.error);
    if (!answer.error) use(answer);
  }
}
