// Receives the updates of the work that the server does for this visitor: a run, a comparison or a check.
// Each kind of work runs once at a time; a new one ends the one before.

import { stream } from "./server.js";

export class Live {
  run = null; // name of the run whose updates are awaited
  number = 0;
  close = () => {};

  // progress: { run, phase, place, message }, the state of the shown work. apply(update) adds one update to
  // it. fail(message) ends the work early. open(update) is called before the first update of new work is
  // applied; if it returns false, the update is dropped.
  constructor(progress, apply, notify, fail = null, open = null) {
    this.progress = progress;
    this.apply = apply;
    this.notify = notify;
    this.fail = fail ?? ((message) => Object.assign(progress, { phase: "error", place: null, message }));
    this.open = open ?? (({ run }) => Object.assign(progress, { run }));
  }

  isActive = () => ["waiting", "choosing", "running", "baseline"].includes(this.progress.phase);

  // Begins work on the server. name: its endpoint; values: its parameters. Returns an id of this work.
  begin(name, values) {
    this.close();
    const run = `run ${(this.number += 1)}`;
    this.run = run;
    this.close = stream(name, values, {
      update: (text) => this.receive(text),
      ended: (message) => this.isActive() && this.breakOff(message || "The server ended the work early. Try again."),
    });
    return run;
  }

  // Ends the run. Its updates end, and so does its work on the server.
  stop() {
    this.close();
    this.run = null;
  }

  // Takes one update (JSON text).
  receive(text) {
    const update = { ...JSON.parse(text), run: this.run };
    const isNew = this.progress.run !== this.run;
    if (update.waits) {
      const { phase, place = null } = update; // the run has not begun
      if (isNew) Object.assign(this.progress, { phase, place });
    } else if (!isNew || this.open(update) !== false) this.apply(update);
    this.notify();
  }

  // Ends the run with a message. The updates so far stay.
  breakOff(message) {
    this.stop();
    this.fail(message);
    this.notify();
  }
}
