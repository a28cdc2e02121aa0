// The one store of the page: the run's trace and what is selected in it. Views read it and listen.

const empty = () => ({
  run: null, // id of the run
  seq: 0, // number of the next update
  phase: "idle", // idle, waiting, choosing, running, baseline, done, stopped, error
  message: "",
  setup: null,
  rounds: [],
  baseline: [],
  selected: { round: -1, step: 0 },
  follow: true, // the selection moves with the newest round
});

export const state = empty();
const listeners = new Set();
const held = new Map(); // updates that came before one still missing, by number
let asking = false;

export function subscribe(listener) {
  listeners.add(listener);
  listener(state);
}

function notify() {
  for (const listener of listeners) listener(state);
}

// The visitor pressed Generate: the model may still be busy with somebody else's run.
export function begin() {
  state.phase = "waiting";
  state.message = "";
  notify();
}

// The visitor pressed Stop: what is shown stays, and late updates of this run only add rounds.
export function stop() {
  if (active()) state.phase = "stopped";
  notify();
}

const active = () => ["waiting", "choosing", "running", "baseline"].includes(state.phase);

// The server is through with the run. If its last update does not come, the visitor must know.
export function ended() {
  const { run, seq } = state;
  setTimeout(() => {
    if (!active() || state.run !== run || state.seq !== seq) return;
    state.phase = "error";
    state.message = "The run broke off: the server refused it or the connection was lost. Try again.";
    notify();
  }, 3000);
}

// Takes one update (JSON text). Updates may arrive merged, so a gap is filled by asking the server.
export function receive(text, server) {
  if (!text) return;
  const update = JSON.parse(text);
  if (update.run !== state.run) {
    if (state.phase === "stopped" && update.seq > 0) return;
    Object.assign(state, empty(), { run: update.run, phase: "waiting" });
    held.clear();
  }
  held.set(update.seq, update);
  applyHeld();
  if (held.size > 0 && server?.missing) fillGap(server);
  notify();
}

function applyHeld() {
  for (const seq of held.keys()) if (seq < state.seq) held.delete(seq);
  while (held.has(state.seq)) {
    const update = held.get(state.seq);
    held.delete(state.seq);
    state.seq += 1;
    apply(update);
  }
}

async function fillGap(server) {
  if (asking) return;
  asking = true;
  const run = state.run;
  try {
    const texts = await server.missing({ run, seq: state.seq });
    if (run !== state.run) return;
    for (const update of texts.map(JSON.parse)) held.set(update.seq, update);
    applyHeld();
    notify();
  } finally {
    asking = false;
  }
}

function apply(update) {
  if (update.setup) state.setup = update.setup;
  if (update.message) state.message = update.message;
  const target = update.phase === "baseline" ? state.baseline : state.rounds;
  target.push(...update.rounds);
  if (state.phase !== "stopped" || update.phase === "error") state.phase = update.phase;
  if (state.follow && target === state.rounds && update.rounds.length > 0) selectLatest();
  if (state.follow && state.phase === "done") restOnDraft();
}

function selectLatest() {
  const round = state.rounds.length - 1;
  state.selected = { round, step: lastStep(round) };
}

// The last rounds of a run have room for less than a whole tree. A finished run rests on the last one
// that drafted all of it, at the last position where both models raced.
function restOnDraft() {
  const most = Math.max(...state.rounds.map(({ nodes }) => nodes.length));
  if (most <= 0) return;
  const round = state.rounds.findLastIndex(({ nodes }) => nodes.length === most);
  const step = state.rounds[round].steps.findLastIndex(({ winner_q }) => winner_q !== null);
  state.selected = { round, step: Math.max(0, step) };
}

const lastStep = (round) => Math.max(0, (state.rounds[round]?.tokens.length ?? 1) - 1);

// Selects a round and one of its positions (default: the one that ended it).
export function select(round, step) {
  if (state.rounds.length === 0) return;
  const clamped = Math.min(Math.max(round, 0), state.rounds.length - 1);
  state.selected = { round: clamped, step: Math.min(step ?? lastStep(clamped), lastStep(clamped)) };
  state.follow = clamped === state.rounds.length - 1 && step === undefined;
  notify();
}

export const selectedRound = () => state.rounds[state.selected.round];
