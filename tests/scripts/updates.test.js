import assert from "node:assert/strict";
import test from "node:test";
import { Updates } from "../../assets/shared/updates.js";

function* orders(items) {
  if (items.length === 0) yield [];
  for (const [i, item] of items.entries()) {
    for (const rest of orders(items.toSpliced(i, 1))) yield [item, ...rest];
  }
}

const gather = () => {
  const seen = [];
  const progress = { run: "r", seq: 0 };
  const filled = [];
  return {
    seen,
    progress,
    filled,
    updates: new Updates(
      progress,
      ({ seq }) => seen.push(seq),
      () => filled.push(1),
    ),
  };
};

test("in every order of arrival, with repeats, each update is applied once and in its turn", () => {
  for (const order of orders([0, 1, 2, 3])) {
    const { seen, progress, updates } = gather();
    for (const seq of [...order, ...order]) updates.take({ seq });
    assert.deepEqual(seen, [0, 1, 2, 3]);
    assert.equal(progress.seq, 4);
  }
});

test("a gap is filled by asking once, from where it begins", async () => {
  const { seen, filled, updates } = gather();
  const asked = [];
  const missing = async (from) => {
    asked.push(from);
    return [JSON.stringify({ seq: 1 }), JSON.stringify({ seq: 2 })];
  };
  updates.take({ seq: 0 }, { missing });
  updates.take({ seq: 3 }, { missing });
  updates.take({ seq: 4 }, { missing });
  await new Promise(setImmediate);
  assert.deepEqual(asked, [{ run: "r", seq: 1 }]);
  assert.deepEqual(seen, [0, 1, 2, 3, 4]);
  assert.equal(filled.length, 1);
});

test("a long gap is filled by asking again, until an answer brings nothing new", async () => {
  const { seen, filled, updates } = gather();
  const asked = [];
  const missing = async ({ seq }) => {
    asked.push(seq);
    return seq < 3 ? [JSON.stringify({ seq })] : [];
  };
  updates.take({ seq: 5 }, { missing });
  await new Promise(setImmediate);
  assert.deepEqual(asked, [0, 1, 2, 3]);
  assert.deepEqual(seen, [0, 1, 2]);
  assert.equal(filled.length, 1);
});

test("an answer for a run that is over changes nothing", async () => {
  const { seen, progress, filled, updates } = gather();
  updates.take({ seq: 1 }, { missing: async () => [JSON.stringify({ seq: 0 })] });
  progress.run = "another";
  updates.forget();
  await new Promise(setImmediate);
  assert.deepEqual([seen, filled], [[], []]);
});

test("a run breaks off when its last update does not come in time, and only then", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const broken = [];
  const { progress, updates } = gather();
  updates.ended(
    () => true,
    () => broken.push("silent"),
  );
  updates.ended(
    () => false,
    () => broken.push("through"),
  );
  t.mock.timers.tick(10_000);
  updates.ended(
    () => true,
    () => broken.push("moved on"),
  );
  progress.seq += 1;
  t.mock.timers.tick(10_000);
  assert.deepEqual(broken, ["silent"]);
});
