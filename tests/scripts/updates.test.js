import assert from "node:assert/strict";
import test from "node:test";
import { Live } from "../../assets/shared/updates.js";

function* orders(items) {
  if (items.length === 0) yield [];
  for (const [i, item] of items.entries()) {
    for (const rest of orders(items.toSpliced(i, 1))) yield [item, ...rest];
  }
}

const settled = () => new Promise(setImmediate);

// A run that has begun; `seen` gets the numbers of the applied updates, and `server` answers with their texts.
function begun(answer = async () => []) {
  const seen = [];
  const asked = [];
  const stopped = [];
  const progress = { run: null, seq: 0, phase: "idle", place: null, message: "" };
  const live = new Live(
    progress,
    ({ seq, phase }) => {
      seen.push(seq);
      if (phase) progress.phase = phase;
    },
    () => {},
    "run",
  );
  const missing = async (question) => {
    asked.push(question);
    return (await answer(question)).map((update) => JSON.stringify({ run: question.run, ...update }));
  };
  live.connect({ missing, stop: async ({ run }) => stopped.push(run) });
  const begin = () => {
    const name = live.begin();
    progress.phase = "waiting";
    return name;
  };
  const name = begin();
  const take = (update) => live.receive(JSON.stringify({ run: name, ...update }));
  return { live, progress, seen, asked, stopped, name, begin, take };
}

test("in every order of arrival, with repeats, each update is applied once and in its turn", () => {
  for (const order of orders([0, 1, 2, 3])) {
    const { seen, progress, take } = begun();
    for (const seq of [...order, ...order]) take({ seq });
    assert.deepEqual(seen, [0, 1, 2, 3]);
    assert.equal(progress.seq, 4);
  }
});

test("a gap is filled by asking from where it begins, again until an answer brings nothing new", async () => {
  const { seen, asked, name, take } = begun(async ({ seq }) => (seq < 3 ? [{ seq }] : []));
  take({ seq: 5 });
  take({ seq: 6 });
  await settled();
  assert.deepEqual(
    asked,
    [0, 1, 2, 3].map((seq) => ({ run: name, seq })),
  );
  assert.deepEqual(seen, [0, 1, 2]);
});

test("neither updates of another run nor a late answer for it change anything", async () => {
  const { live, seen, begin, take } = begun(async () => [{ seq: 0 }]);
  take({ seq: 1 });
  const second = begin();
  take({ seq: 0 });
  await settled();
  assert.deepEqual(seen, []);
  live.receive(JSON.stringify({ run: second, seq: 0 }));
  assert.deepEqual(seen, [0]);
});

test("a run that is stopped before the server has heard of it is stopped there by its name", () => {
  const { live, progress, seen, stopped, name, begin, take } = begun();
  live.stop();
  progress.phase = "stopped";
  assert.deepEqual(stopped, [name]);
  const second = begin();
  assert.deepEqual([live.sent(), live.sent()], [name, second]);
  take({ seq: 0, phase: "running" });
  assert.deepEqual([seen, progress.phase], [[], "waiting"]);
});

test("a run breaks off when the server has ended all streams and does not know its end, and only then", async () => {
  const ends = [
    { seq: 0, phase: "running" },
    { seq: 1, phase: "done" },
  ];
  const { live, progress } = begun(async ({ seq }) => ends.slice(seq));
  await live.ended();
  assert.equal(progress.phase, "done"); // the last update was lost and is there now
  const quick = begun();
  const second = quick.begin();
  await quick.live.ended(); // that was the first run's stream
  assert.equal(quick.progress.phase, "waiting");
  quick.live.receive(JSON.stringify({ run: second, seq: 0, phase: "running" }));
  await quick.live.ended();
  assert.equal(quick.progress.phase, "error");
  assert.match(quick.progress.message, /The run broke off/);
});

test("a server that does not answer is asked again", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let tries = 0;
  const { live, progress } = begun(async () => {
    if ((tries += 1) === 1) throw new Error("busy");
    return [{ seq: 0, phase: "done" }];
  });
  const end = live.ended();
  await settled();
  assert.equal(progress.phase, "waiting");
  t.mock.timers.runAll();
  await end;
  assert.deepEqual([progress.phase, tries], ["done", 2]);
});
