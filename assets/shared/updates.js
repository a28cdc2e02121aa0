// Puts the updates of a run in order. Gradio may merge two that arrive together, so the missing ones are requested.

const LATE = 10_000; // milliseconds that the last update may come after the server is through

export class Updates {
  // progress: { run, seq }, the run and the number of its next update. apply: processes one update; filled: called
  // after a gap was filled.
  constructor(progress, apply, filled) {
    this.progress = progress;
    this.apply = apply;
    this.filled = filled;
    this.held = new Map();
    this.asking = false;
  }

  forget() {
    this.held.clear();
  }

  take(update, server) {
    this.held.set(update.seq, update);
    this.applyHeld();
    if (this.held.size > 0 && server?.missing) this.fillGap(server);
  }

  // The server has ended the stream. If the run's last update does not arrive, `broken` is called.
  ended(isActive, broken) {
    const { run, seq, place } = this.progress; // a waiting visitor gets a place in line every second
    setTimeout(() => {
      if (isActive() && this.progress.run === run && this.progress.seq === seq && this.progress.place === place)
        broken();
    }, LATE);
  }

  applyHeld() {
    const { progress, held } = this;
    for (const seq of held.keys()) if (seq < progress.seq) held.delete(seq);
    while (held.has(progress.seq)) {
      const update = held.get(progress.seq);
      held.delete(progress.seq);
      progress.seq += 1;
      this.apply(update);
    }
  }

  async fillGap(server) {
    if (this.asking) return;
    this.asking = true;
    const { run } = this.progress;
    try {
      let before;
      do {
        before = this.progress.seq;
        const texts = await server.missing({ run, seq: before }); // the server may answer with only a part of them
        if (run !== this.progress.run) return;
        for (const update of texts.map(JSON.parse)) this.held.set(update.seq, update);
        this.applyHeld();
      } while (this.held.size > 0 && this.progress.seq > before);
      this.filled();
    } finally {
      this.asking = false;
    }
  }
}

// The life cycle of what the server streams: it waits in line, runs, and ends or breaks off.
export class Live extends Updates {
  before = null; // id of the run before this one, whose late updates are ignored

  // progress: also { phase, place, message }. what: its name in messages. fail(message): ends it early.
  constructor(
    progress,
    apply,
    notify,
    what,
    fail = (message) => Object.assign(progress, { phase: "error", place: null, message }),
  ) {
    super(progress, apply, notify);
    this.notify = notify;
    this.what = what;
    this.fail = fail;
  }

  isActive = () => ["waiting", "choosing", "running", "baseline"].includes(this.progress.phase);

  // Another run follows. Its first update gives its id.
  begin() {
    this.before = this.progress.run;
    this.forget();
  }

  // Takes one update (JSON text). Updates of a run that was stopped are ignored.
  receive = (text, server) => {
    if (!text || !this.isActive()) return;
    const update = JSON.parse(text);
    if (update.place) this.waits(update.place);
    else {
      if (update.run !== this.before) this.progress.run ??= update.run;
      if (update.run !== this.progress.run) return;
      this.take(update, server);
    }
    this.notify();
  };

  // The place in line; such updates have no number.
  waits(place) {
    if (this.progress.phase === "waiting") this.progress.place = place;
  }

  // Ends the run with a message. The updates so far stay.
  breakOff = (message) => {
    this.fail(message);
    this.notify();
  };

  // The server has ended the stream. If the last update is missing, the visitor gets a message.
  through = () =>
    this.ended(this.isActive, () =>
      this.breakOff(`The ${this.what} broke off: the server refused it or the connection was lost. Try again.`),
    );
}
