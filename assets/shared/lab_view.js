// Tools that the laboratories' views share.

import { setMessage, setText } from "./view.js";

// Fills the menu of examples. It gets one more entry, “own values”, which is shown after a change by hand and
// cannot be chosen. Returns the function that shows the present example (null: own values) and a note about it.
export function presetMenu(find, presets, load) {
  const select = find(".presets select");
  select.append(...presets.map(({ id, name }) => new Option(name, id)));
  select.append(Object.assign(new Option("own values", "own"), { hidden: true }));
  select.addEventListener("change", () => load(presets.find(({ id }) => id === select.value)));
  return (id, note = "") => {
    select.value = id ?? "own";
    setText(find(".preset-note"), note);
  };
}

const UNANSWERED = "The server did not answer. Try again.";

// Asks the server questions, one at a time. If several questions arrive while an answer is awaited, only the
// last of them is sent. Errors are shown in `box`. `results` are the elements that show the answers. They are
// marked while an answer is awaited, and after an error, because they then show an outdated answer.
export class Asker {
  number = 0;
  asking = null;
  failed = false;

  constructor(box, results = []) {
    this.box = box;
    this.results = [...results];
  }

  // Ignores the answers that have not come yet.
  forget() {
    this.number += 1;
    this.settle();
  }

  // Ends the waiting for an answer. An error of another asker with the same box stays.
  settle(error = null) {
    for (const element of this.results) {
      element.setAttribute("aria-busy", "false");
      element.toggleAttribute("data-outdated", Boolean(error));
    }
    if (error || this.failed) setMessage(this.box, error);
    this.failed = Boolean(error);
  }

  // question(): sends it. use(answer): called with the answer to the newest question, unless it is an error.
  async ask(question, use) {
    const number = ++this.number;
    for (const element of this.results) element.setAttribute("aria-busy", "true");
    if (this.asking) await this.asking.catch(() => {});
    if (number !== this.number) return;
    this.asking = question();
    const answer = (await this.asking.catch(() => null)) ?? { error: UNANSWERED }; // there is no connection
    if (number !== this.number) return;
    this.settle(answer.error);
    if (!answer.error) use(answer);
  }
}
