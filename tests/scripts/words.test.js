import assert from "node:assert/strict";
import test from "node:test";
import { around, change, parting, reason, verdict } from "../../assets/compare/diff.js";
import { reachedWords } from "../../assets/decode/optimum.js";
import { feedback, isRight, textOf } from "../../assets/lessons/question.js";
import { bounded, caught, verdict as judged, statistic } from "../../assets/losslessness/words.js";
import { digits, percent, quoted, share, shortened, visible } from "../../assets/shared/labels.js";
import { Totals } from "../../assets/shared/totals.js";
import { runs } from "./recorded.js";

const lane = (text, phase = "finished") => ({
  phase,
  tokens: [...text].map((sign) => ({ id: sign.codePointAt(0), text: sign })),
  totals: { rounds: 2, tokens: text.length },
});

test("no sign of a token is invisible or turns the text around, whatever the model writes", () => {
  const harmful = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/u;
  for (let point = 0; point < 0x3000; point++) {
    const text = visible(String.fromCodePoint(point));
    assert.doesNotMatch(text, harmful, point.toString(16));
    assert.ok(text.length > 0);
  }
  assert.equal(visible(" a\n\t\u0007"), "␣a⏎⇥[U+0007]");
  assert.equal(visible(""), "…");
  assert.equal(visible("a\r\nb\r"), "a⏎b[U+000D]");
  assert.deepEqual(["\n        ", " if", "  "].map(visible), ["⏎␣×8", "␣if", "␣␣"]);
});

test("joiners inside words and emoji are text, and by themselves they are named", () => {
  const words = "\u0645\u06cc\u200c\u0631\u0648\u0645 \u0915\u094d\u200d\u0937 👨\u200d👩\u200d👧 ❤\ufe0f א\u200f!";
  for (const word of words.split(" ")) assert.equal(visible(word), word);
  assert.equal(visible("\u200d"), "[U+200D]");
  assert.equal(visible("\u200d\ufe0f"), "[U+200D][U+FE0F]");
  for (const override of ["\u202e", "\u2066", "\u001b"])
    assert.match(visible(`a${override}b`), /^a\[U\+[0-9A-F]{4}\]b$/);
});

test("a label is never longer than asked and never cuts a character in two", () => {
  for (const text of ["", "abc", "x".repeat(80), "😀".repeat(40)]) {
    for (const length of [1, 5, 24]) {
      const short = shortened(text, length);
      assert.ok([...short].length <= length);
      assert.ok(short.isWellFormed?.() ?? true);
    }
  }
});

test("a share has more decimal places if it is small, and one if it rounds to 0", () => {
  assert.deepEqual([0, 1e-7, 0.0012, 0.25, 1].map(share), ["0.0%", "0.0%", "0.12%", "25.0%", "100.0%"]);
});

test("numbers have three digits, and infinity its sign", () => {
  assert.deepEqual([null, 0, 0.00001234, 0.12345, 1.5, 123.4].map(digits), ["∞", "0", "1.2e-5", "0.123", "1.5", "123"]);
  assert.equal(percent(1, 3), "33%");
  assert.equal(percent(0, 0), "–");
});

test("two texts part where they first differ, seen from either", () => {
  const partings = { "abc|abc": -1, "abc|abd": 2, "abc|ab": 2, "|a": 0, "|": -1 };
  for (const [texts, at] of Object.entries(partings)) {
    const [a, b] = texts.split("|").map((text) => lane(text));
    assert.equal(parting(a, b), at);
    assert.equal(parting(b, a), at);
  }
  assert.equal(parting(lane("ab", "running"), lane("abc")), -1); // it may still come
});

test("a verdict is given once the texts part or both are through", () => {
  assert.equal(verdict(lane("abc"), lane("abc")).same, true);
  assert.equal(verdict(lane("ab", "running"), lane("abc")).same, null);
  const parted = verdict(lane("abx"), lane("abc"));
  assert.deepEqual([parted.same, parted.at], [false, 2]);
  assert.ok(parted.line.includes(quoted("x")) && parted.line.includes(quoted("c")));
  assert.ok(verdict(lane("ab"), lane("abc")).line.includes("token 3: the end instead of"));
});

test("the reason fits the method, the temperature and the precision", () => {
  const same = { same: true, at: -1 };
  const parted = { same: false, at: 3 };
  assert.match(reason("ersd", same, { greedy: false, dtype: "float32" }), /depends on seed and position alone/);
  assert.match(reason("ersd", parted, { greedy: false, dtype: "bfloat16" }), /bfloat16.*3 tokens.*float32/);
  assert.match(reason("gsd", parted, { greedy: false, dtype: "float32" }), /random numbers of its own/);
  assert.match(reason("gsd", same, { greedy: true, dtype: "float32" }), /temperature 0/);
  assert.equal(reason("gsd", { same: null }, {}), "");
  const ways = [false, true].map((greedy) => ({ greedy, dtype: "bfloat16" }));
  const all = ["ersd", "gsd"].flatMap((method) =>
    [same, parted].flatMap((it) => ways.map((way) => reason(method, it, way))),
  );
  assert.doesNotMatch(all.join(" "), /target/); // the page's word is “the large model”
});

test("the place where texts part is shown whole, with a little on both sides", () => {
  const { tokens } = lane("abcdefghij".repeat(8));
  for (const place of [0, 3, 40, 79]) {
    const excerpt = around(tokens, place);
    assert.equal(excerpt.token, tokens[place].text);
    assert.equal(excerpt.before.startsWith("…"), place > 28);
    assert.equal(excerpt.after.endsWith("…"), tokens.length - place - 1 > 28);
  }
  assert.equal(around(tokens, 80).token, "");
});

test("a change of a column tells what it did to the text", () => {
  assert.match(change({ ...lane("abc"), before: lane("abc") }), /all 3 tokens of the text are the same/);
  assert.match(change({ ...lane("abx"), before: lane("abc") }), /differs from token 3 on/);
  assert.equal(change(lane("abc")), "");
});

const CHECK = { phase: "done", setup: { decodes: 4000, fault: null }, decodes: 4000 };
const setup = { alarm: 0.001, faults: { swapped: "draft and target swapped" } };
const over = (p, more = {}) => judged({ ...CHECK, chi_square: [20, 10, p], ...more }, setup);

test("a losslessness check is judged by its p-value alone, and named by its fault", () => {
  const fault = { setup: { decodes: 4000, fault: "swapped" } };
  assert.equal(over(0.5).kind, "accepted");
  assert.match(over(1e-9).text, /^✗ A difference.*once in 1,000 checks/);
  assert.match(over(1e-9, fault).text, /^✗ Caught \(draft and target swapped\)/);
  assert.match(over(0.5, fault).text, /^○ Not caught/);
  assert.match(over(0.5, { phase: "stopped" }).text, /^Stopped, so no verdict. After 4,000 of 4,000/);
  assert.match(over(1, { phase: "stopped", decodes: 0, setup: null }).text, /before the first decode. Press/);
  assert.equal(caught({ chi_square: [0, 1, 0.001] }, 0.001), false);
});

test("p-values and statistics are written for people", () => {
  assert.deepEqual([0, 1e-5, 0.04567, 0.5, 0.9987].map(bounded), ["< 1e−12", "1e−5", "0.046", "0.5", "0.999"]);
  assert.deepEqual([2.7512, 1234.5].map(statistic), ["2.8", "1,235"]);
});

test("a prediction is right within its margin, and the answer is said either way", () => {
  const number = { range: [0, 100, 1], percent: true, answer: 42, close: 3 };
  const choice = { choices: ["more", "less"], answer: 1 };
  const right = [38.9, 39, 45, 45.1].filter((value) => isRight(number, value));
  assert.deepEqual(right, [39, 45]);
  assert.equal(textOf(number, 42), "42%");
  for (const value of [0, 30, 42, 44, 100]) assert.ok(feedback(number, value).includes("42%"));
  assert.match(feedback(choice, 1), /^✓/);
  assert.match(feedback(choice, 0), /^○ You predicted “more”; the answer is “less”/);
});

test("what a run reached of the optimum is told with its chance, or why it is not known", () => {
  const step = (kind, optimum) => ({ kind, optimum });
  const steps = [step("accepted", 0.5), step("accepted", 0.5), step("residual", 0.5), step("bonus", null)];
  const seconds = { draft: 0, evaluate: 0, verify: 0, rest: 0 };
  const totals = new Totals().addAll([{ tokens: [], nodes: [], seconds, steps }]);
  assert.deepEqual(totals.reached, { positions: 3, accepted: 2, optimum: 1.5, variance: 0.75, unknown: 0 });
  const { share, note } = reachedWords(totals, { method: "gsd" });
  assert.equal(share, "133%");
  assert.match(note, /^accepted at 2 of 3 positions with drafts; .* at 1\.5 ± 1\.7 of them \(95%\)$/);
  assert.match(reachedWords(totals, { method: "traversal" }).note, /several positions at once/);
  assert.equal(reachedWords(totals, { method: "ersd", topology: "context" }).share, "–");
  const first = new Totals().addAll([{ tokens: [], nodes: [], seconds, steps: [{ kind: "accepted" }] }]);
  assert.deepEqual(reachedWords(first, { method: "gsd" }), { share: "–", note: "this record does not contain it" });
  assert.equal(reachedWords(first, { method: "ar" }).note, "nothing is drafted");
  assert.equal(reachedWords(new Totals(), null).note, "");
  const large = { kind: "accepted", optimum: null, winner_q: 3 };
  const several = new Totals().addAll([{ tokens: [], nodes: [], seconds, steps: [large] }]);
  assert.match(reachedWords(several, { method: "gsd" }).note, /^not known: with many drafts/);
  const mixed = new Totals().addAll([{ tokens: [], nodes: [], seconds, steps: [...steps, large] }]);
  assert.match(reachedWords(mixed, { method: "gsd" }).note, /; positions left out: 1, because with many drafts/);
});

test("the sums over a run are the same whether its rounds came one by one or together", () => {
  for (const { rounds } of Object.values(runs)) {
    const [together, single] = [new Totals().addAll(rounds), new Totals()];
    rounds.forEach((_, i) => single.addAll(rounds, i + 1));
    assert.deepEqual(single, together);
    assert.equal(together.tokens, rounds.flatMap(({ tokens }) => tokens).length);
    const accepted = together.indices.reduce((sum, { accepted: count }) => sum + count, 0);
    assert.equal(accepted, together.acceptance.num_accepted);
  }
});
