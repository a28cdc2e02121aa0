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
