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

// Fills the menu of examples. Values that were set by hand have an entry of their own, which cannot be
// chosen.
export function presetMenu(select, presets, load) {
  select.append(...presets.map(({ id, name }) => new Option(name, id)));
  select.append(Object.assign(new Option("own values", "own"), { hidden: true }));
  select.addEventListener("change", () => load(presets.find(({ id }) => id === select.value)));
}

const UNANSWERED = "The server did not answer. Try again.";

// Questions to the server. They are sent one at a time. Of the questions that come meanwhile, only the last
// one is sent. An error is shown in `box`; `busy` is marked while an answer is awaited.
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
    const answer = (await this.asking.catch(() => null)) ?? { error: UNANSWERED }; // offline Gradio gives no answer
    if (number !== this.number) return;
    this.busy?.setAttribute("aria-busy", "false");
    setMessage(this.box, answer.error);
    if (!answer.error) use(answer);
  }
}
