// What the server streams to this page: a run, a comparison, a check. The browser names each run when it begins, so it
// can stop a run that the server has not heard of yet, and ignores the updates of every other run.

// A word that nobody can guess. crypto.randomUUID exists only on pages with a secure connection.
const newWord = () => [...crypto.getRandomValues(new Uint32Array(4))].map((part) => part.toString(36)).join("");

const AGAIN = 1000; // milliseconds until a question that got no answer is asked again

// Puts the updates of a run in order. Gradio may merge two that arrive together, so the missing ones are requested.
export class Live {
  page = newWord();
  number = 0; // of the latest run
  run = null; // name of the run whose updates are awaited: page and number
  held = new Map(); // updates that came too early, by number
  unsent = []; // names of runs that Gradio has not sent to the server yet
  streams = 0; // runs whose stream the server has not ended
  asking = null; // name of the run whose missing updates are being asked for
  server = null;

  // progress: { run, seq, phase, place, message }, the run that is shown and the number of its next update.
  // apply(update) processes one update. what: the run's name in messages. fail(message) ends it early. open(update) is
  // called before the first update of a run is applied; false rejects the update.
  constructor(progress, apply, notify, what, fail = null, open = null) {
    this.progress = progress;
    this.apply = apply;
    this.notify = notify;
    this.what = what;
    this.fail = fail ?? ((message) => Object.assign(progress, { phase: "error", place: null, message }));
    this.open = open ?? (({ run }) => Object.assign(progress, { run, seq: 0 }));
  }

  // server: its functions `missing` and `stop`.
  connect = (server) => void (this.server = server);

  isActive = () => ["waiting", "choosing", "running", "baseline"].includes(this.progress.phase);

  // Begins a run and returns its name. The server stops the earlier runs of this page.
  begin() {
    this.run = `${this.page}-${(this.number += 1)}`;
    this.unsent.push(this.run);
    this.streams += 1;
    this.held.clear();
    return this.run;
  }

  // The name of the run that Gradio is about to send to the server.
  sent = () => this.unsent.shift() ?? "";

  // Tells the server to stop the run. Updates that still arrive are ignored.
  stop() {
    if (this.run !== null && this.isActive()) this.server?.stop({ run: this.run }).catch(() => {}); // then it runs in vain
    this.run = null;
  }

  // Takes one update (JSON text).
  receive = (text) => {
    const update = text ? JSON.parse(text) : {};
    if (!this.run || update.run !== this.run || !this.isActive()) return;
    this.take(update);
    if (this.held.size > 0 && this.asking !== this.run) this.fillGap();
    this.notify();
  };

  take(update) {
    if (update.seq === undefined) {
      const { phase, place = null } = update; // the run has not begun
      if (this.progress.run !== this.run) Object.assign(this.progress, { phase, place });
      return;
    }
    if (this.progress.run !== this.run && this.open(update) === false) return;
    this.held.set(update.seq, update);
    const { progress, held } = this;
    for (const seq of held.keys()) if (seq < progress.seq) held.delete(seq);
    while (held.has(progress.seq)) {
      const next = held.get(progress.seq);
      held.delete(progress.seq);
      progress.seq += 1;
      this.apply(next);
    }
  }

  get next() {
    return this.progress.run === this.run ? this.progress.seq : 0;
  }

  // Asks the server for the updates from the next one on. It may answer with only a part of them. Returns whether it
  // has answered.
  async fillGap() {
    const { run, server } = this;
    this.asking = run;
    try {
      let before;
      do {
        before = this.next;
        const texts = await server.missing({ run, seq: before });
        if (run !== this.run) return true;
        for (const update of texts.map(JSON.parse)) this.take(update);
      } while (this.isActive() && this.next > before);
      this.notify();
      return true;
    } catch {
      return false;
    } finally {
      if (this.asking === run) this.asking = null;
    }
  }

  // Ends the run with a message. The updates so far stay.
  breakOff = (message) => {
    this.stop();
    this.fail(message);
    this.notify();
  };

  // The server has ended a stream. If it was that of this run and the end has not arrived, it is asked for. A server that
  // does not answer is asked again until page/connection.js breaks off the run.
  ended = async () => {
    this.streams -= 1;
    const { run } = this;
    const isOpen = () => this.streams === 0 && run === this.run && this.isActive();
    while (isOpen() && !(await this.fillGap())) await new Promise((done) => setTimeout(done, AGAIN));
    if (isOpen())
      this.breakOff(`The ${this.what} broke off: the server refused it or the connection was lost. Try again.`);
  };
}
