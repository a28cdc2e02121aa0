import assert from "node:assert/strict";
import test from "node:test";
import { LOST, prepareServer } from "../../assets/shared/server.js";
import { Live } from "../../assets/shared/updates.js";
import { serve, settled } from "./server.js";

// A run that has begun. `seen` gets the numbers of the applied updates.
async function begun({ open } = {}) {
  const { posts, sources } = serve();
  const updates = [];
  const progress = { run: null, phase: "idle", place: null, message: "" };
  const take = ({ number, phase }) => {
    updates.push(number);
    progress.phase = phase ?? "running";
  };
  const live = new Live(progress, take, () => {}, null, open);
  const begin = () => {
    const run = live.begin("decode", { prompt: "Once", k: 4 });
    progress.phase = "waiting";
    return run;
  };
  begin();
  await settled();
  return { live, progress, seen: updates, posts, sources, begin };
}

async function answered(options) {
  const all = await begun(options);
  await all.posts[0].answer({ event_id: "e1" });
  all.sources[0].open();
  return all;
}

test("a run is begun by name, and its updates are applied once each, in order", async () => {
  const { progress, seen, posts, sources } = await answered();
  assert.equal(posts[0].address, "http://server/below/gradio_api/call/v2/decode");
  assert.deepEqual(posts[0].values, { prompt: "Once", k: 4 });
  assert.equal(sources[0].address, "http://server/below/gradio_api/call/v2/decode/e1");
  for (const number of [0, 1, 2]) sources[0].update({ number });
  sources[0].update({ number: 3, phase: "done" });
  sources[0].say("complete", "null");
  assert.deepEqual(seen, [0, 1, 2, 3]);
  assert.deepEqual([progress.phase, progress.message, sources[0].readyState], ["done", "", 2]);
});

test("Stop closes the stream, and nothing that still arrives is applied", async () => {
  const { live, progress, seen, sources } = await answered();
  sources[0].update({ number: 0 });
  live.stop();
  progress.phase = "stopped";
  sources[0].update({ number: 1 });
  sources[0].say("complete", "null");
  assert.deepEqual([seen, progress.phase, sources[0].readyState], [[0], "stopped", 2]);
});

test("a run that is stopped before the server has answered is opened and closed, which ends it there", async () => {
  const { live, progress, seen, posts, sources } = await begun();
  live.stop();
  progress.phase = "stopped";
  await posts[0].answer({ event_id: "e1" });
  assert.equal(sources[0].readyState, 0); // a stream that is closed before it is open may never reach the server
  sources[0].open();
  assert.equal(sources[0].readyState, 2);
  assert.deepEqual([seen, progress.phase], [[], "stopped"]);
});

test("a new run ends the one before, whose updates change nothing any more", async () => {
  const { seen, posts, sources, begin } = await answered();
  sources[0].update({ number: 0 });
  begin();
  await settled();
  assert.equal(sources[0].readyState, 2);
  await posts[1].answer({ event_id: "e2" });
  sources[0].update({ number: 1 });
  sources[1].update({ number: 10 });
  assert.deepEqual(seen, [0, 10]);
});

test("a connection that breaks ends the run with a message, and is not opened again", async () => {
  const { progress, seen, sources } = await answered();
  sources[0].update({ number: 0 });
  sources[0].say("error");
  assert.deepEqual([seen, progress.phase, progress.message], [[0], "error", LOST]);
  assert.equal(sources[0].readyState, 2);
});

test("a stream without a sign of life for a minute counts as lost", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { progress, sources } = await answered();
  t.mock.timers.tick(50_000);
  sources[0].say("heartbeat", "null");
  t.mock.timers.tick(50_000);
  assert.equal(progress.phase, "waiting");
  t.mock.timers.tick(10_001);
  assert.deepEqual([progress.phase, progress.message], ["error", LOST]);
});

test("a server that ends early or refuses is told in words, whatever it says", async () => {
  const early = await answered();
  early.sources[0].say("complete", "null");
  assert.match(early.progress.message, /ended the work early/);
  const failed = await answered();
  failed.sources[0].say("error", "null");
  assert.match(failed.progress.message, /before it was complete/);
  const refused = await begun();
  await refused.posts[0].answer({ detail: "too many requests" }, false);
  assert.deepEqual([refused.progress.phase, refused.progress.message], ["error", "too many requests"]);
});

test("a run that waits changes nothing but the place, and the first other update may be rejected", async () => {
  const phases = [];
  const { progress, seen, sources } = await answered({ open: ({ phase }) => phases.push(phase) && phase !== "error" });
  sources[0].update({ waits: true, phase: "waiting", place: { number: 2 } });
  assert.deepEqual([progress.place, phases, seen], [{ number: 2 }, [], []]);
  sources[0].update({ phase: "error" });
  assert.deepEqual([phases, seen], [["error"], []]);
});

test("on a Space, a run carries the headers that the hub's page gives, and on no other host it asks", async (t) => {
  const calls = [];
  let hear = null;
  const hub = {
    postMessage(message, origin, [port] = []) {
      calls.push([message, origin]);
      port?.postMessage({ "x-zerogpu-token": "of the visitor" });
    },
  };
  t.after(() => ["window", "parent", "location", "addEventListener"].forEach((name) => delete globalThis[name]));
  Object.assign(globalThis, { window: {}, parent: hub, location: { hostname: "127.0.0.1" } });
  globalThis.addEventListener = (kind, listener) => kind === "message" && (hear = listener);
  prepareServer();
  assert.deepEqual(calls, []);
  location.hostname = "someone-space.hf.space";
  prepareServer();
  assert.deepEqual(calls, [["supports-zerogpu-headers", "https://huggingface.co"]]);
  hear({ data: "supports-zerogpu-headers", origin: "https://evil.example" });
  assert.deepEqual((await begun()).posts[0].headers, { "content-type": "application/json" });
  hear({ data: "supports-zerogpu-headers", origin: "https://huggingface.co" });
  const { posts } = await begun();
  while (posts.length === 0) await settled();
  assert.equal(posts[0].headers["x-zerogpu-token"], "of the visitor");
});
