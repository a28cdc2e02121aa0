import assert from "node:assert/strict";
import test from "node:test";
import { fieldsOf, Game, shared } from "../../assets/be_draft/game.js";
import { guessWords, outcome, rows } from "../../assets/be_draft/words.js";
import { differing, readAll } from "../../assets/page/setup_fields.js";

const token = (id, kind, text = ` t${id}`) => ({ id, kind, text });
const typed = (text, status, p = 0.02) => ({ text, status, p });
const counts = (drafted, accepted, seconds = 0.001) => ({ drafted, accepted, seconds });
const NONE = { draft: counts(0, 0), ngram: counts(0, 0) };

const PART = {
  tokens: [token(1, "accepted"), token(2, "correction")],
  guess: [typed(" t1", "accepted"), typed(" x", "rejected", 0.4), typed(" y", "unvisited")],
  others: { draft: counts(3, 2), ngram: counts(1, 0) },
  ended: false,
  seconds: 4,
};
const ALONE = { tokens: [token(3, "sampled")], guess: [], others: NONE, ended: false, seconds: 9 };
const ALL = {
  tokens: [token(4, "accepted"), token(5, "bonus")],
  guess: [typed(" t4", "accepted")],
  others: { draft: counts(1, 1), ngram: counts(1, 1) },
  ended: false,
  seconds: 2,
};

function played(...rounds) {
  const game = new Game({ prompt: "A", seed: 1, temperature: 0.5 }, 6);
  game.rounds.push(...rounds);
  return game;
}

test("all drafters are counted in the same places, a call without a draft too", () => {
  const { totals, written } = played(PART, ALONE, ALL);
  assert.deepEqual(written, [1, 2, 3, 4, 5]);
  assert.deepEqual(totals.you, { drafted: 4, accepted: 2, seconds: [4, 2], tokens: 5 });
  assert.equal(totals.you.tokens, written.length);
  assert.deepEqual([totals.draft.accepted, totals.draft.tokens], [3, 6]);
  assert.deepEqual([totals.ngram.drafted, totals.ngram.accepted, totals.ngram.tokens], [2, 1, 4]);
});

test("the table gives shares with their counts, and dashes where there is nothing", () => {
  assert.deepEqual(rows(played(PART, ALONE, ALL)), [
    ["tokens accepted", "2 of 4, 50%", "3 of 4, 75%", "1 of 2, 50%"],
    ["tokens per call", "1.67", "2.00", "1.33"],
    ["time to draft", "4.0 s", "1.0 ms", "1.0 ms"],
  ]);
  for (const row of rows(played())) assert.deepEqual(row.slice(1), ["–", "–", "–"]);
});

test("a story is over at its length, at the text's own end, and when the visitor says so", () => {
  assert.ok(!played().isOver);
  assert.ok(!played(PART, ALONE, ALL).isOver);
  assert.ok(played(PART, ALONE, ALL, ALONE).isOver);
  assert.ok(played({ ...PART, ended: true }).isOver);
  assert.ok(Object.assign(played(PART), { given: true }).isOver);
});

test("each round is told: what was kept, what came instead, what was never looked at", () => {
  const plain = (round) => guessWords(round).replaceAll(/[\u2068\u2069]/g, "");
  assert.equal(plain(ALONE), "The large model wrote “␣t3” alone: one call, one token.");
  assert.equal(plain(ALL), "“␣t4” accepted, and the large model adds “␣t5”: 2 tokens from one call.");
  assert.equal(
    plain(PART),
    "“␣t1” accepted, “␣x” rejected: the large model writes “␣t2”: 2 tokens from one call. The large model gave your token a probability of 40%, but another word won the race. The words after it are dropped.",
  );
  const wrong = { ...PART, tokens: [token(2, "correction")], guess: [typed(" x", "rejected", 1e-5)] };
  assert.equal(
    plain(wrong),
    "“␣x” rejected: the large model writes “␣t2”. The large model gave your token a probability of less than 0.1%.",
  );
  const end = { ...ALL, tokens: [token(4, "accepted")], ended: true };
  assert.equal(plain(end), "“␣t4” accepted, and the story ends.");
});

test("the story without the visitor is compared, token by token and letter by letter", () => {
  const game = Object.assign(played(PART, ALL), { given: true });
  assert.match(outcome(played(PART)), /^When the story ends/);
  assert.match(outcome(game), /alone …$/);
  game.alone = { ids: [1, 2, 4, 5], text: " t1 t2 t4 t5" };
  assert.match(
    outcome(game),
    /^The same text, letter by letter.* The large model alone needed 4 calls; with you it needed 2\.$/,
  );
  game.alone = { ids: [1, 2, 4, 6], text: " t1 t2 t4 t6" };
  assert.match(outcome(game), /^The two texts differ after 3 of 4 tokens, because/);
  assert.equal(shared([1, 2], [1, 2, 3]), 2);
});

test("the address keeps what differs, and says what does not fit", () => {
  const props = { openings: ["a", "b"], temperatures: [0, 0.5, 1] };
  const fields = fieldsOf(props);
  const story = { opening: 2, temperature: 0, seed: 5 };
  assert.deepEqual(readAll(differing(story, fields), fields), { values: story, messages: [] });
  const { values, messages } = readAll({ opening: "3", temperature: "0.7", seed: "-1" }, fields);
  assert.deepEqual(values, { opening: 1, temperature: 0.5, seed: 19 });
  assert.deepEqual(differing(values, fields), {});
  assert.equal(messages.length, 3);
});
