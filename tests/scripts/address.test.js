import assert from "node:assert/strict";
import test from "node:test";
import { Columns } from "../../assets/compare/columns.js";
import { differing, misfit, read, readAll, shown, written, writtenNames } from "../../assets/page/setup_fields.js";

const FIELDS = {
  text: { kind: "text", default: "" },
  flag: { kind: "flag", default: false },
  choice: { kind: "choice", default: "ersd", choices: ["ersd", "gsd", 4] },
  number: { kind: "number", default: 1, least: 0, most: 2 },
  whole: { kind: "number", default: null, least: 0, whole: true },
  list: { kind: "list", default: null, least: 0, most: 1, fewest: 2, longest: 4 },
  names: { kind: "names", default: null, fewest: 1, longest: 3 },
  tree: { kind: "tree", default: "" },
  conversation: { kind: "conversation", default: "" },
};
const VALUES = {
  text: ["", "Once upon a time, 100% “sure” & more", "\u202e\u0000"],
  flag: [true, false],
  choice: ["gsd", 4],
  number: [0, 2, 0.7, 1e-5],
  whole: [0, 2 ** 53 - 1],
  list: [
    [0, 1],
    [0.25, 0.5, 0.125],
  ],
  tree: ["", "3.1.1", "0", "1.1.1.1"],
  conversation: ["", '["a, b?", ""]'],
};
const WRONG = {
  flag: ["", "yes", "2"],
  choice: ["", "ERSD", "toString"],
  number: ["", " ", "-1", "2.01", "NaN", "Infinity", "1,0", "<b>"],
  whole: ["-1", "0.5", "1e400"],
  list: ["", "1", "0,2", "0,,1", "0,0,0,0,0", "a,b"],
  names: ["a,b,c,d", "%E0%A4%A"],
  tree: ["x", "3..1", "1.1.0.2", "12345", "-1", "3."],
  conversation: ["x", "[", "5", "null", '"ab"', '["a"]', '["a", 5]'],
};

test("what an address has was the value: written and read again, nothing is lost", () => {
  for (const [name, values] of Object.entries(VALUES)) {
    for (const value of values) {
      const { values: again, messages } = readAll(differing({ [name]: value }, FIELDS), FIELDS);
      assert.deepEqual(again[name], value, name);
      assert.deepEqual(messages, []);
    }
  }
  const names = ["a,b", "100%", "ü "];
  assert.deepEqual(read("names", writtenNames(names), FIELDS.names), names);
});

test("an address holds only what differs from the defaults", () => {
  const defaults = Object.fromEntries(Object.entries(FIELDS).map(([name, field]) => [name, field.default]));
  assert.deepEqual(differing(defaults, FIELDS), {});
});

test("what does not fit becomes the default, and a message names it and says what would be right", () => {
  for (const [name, texts] of Object.entries(WRONG)) {
    for (const text of texts) {
      const { values, messages } = readAll({ [name]: text }, FIELDS, (key) => `lab.${key}`);
      assert.equal(values[name], FIELDS[name].default);
      assert.equal(messages.length, 1);
      assert.ok(messages[0].startsWith(`lab.${name} = ${shown(text)} in the address is not valid: give `), messages[0]);
    }
  }
});

test("an unknown name is left out and the known ones are told", () => {
  const { messages } = readAll({ wrnog: "1" }, FIELDS);
  assert.match(messages[0], /“\u2068wrnog\u2069”.*The settings are: text, flag/);
});

test("a visitor's value in a message is short and hides nothing", () => {
  assert.ok(misfit("k", "x".repeat(5000), "less").length < 150);
  assert.doesNotMatch(shown("a\u202eb\u0007"), /[\u202e\u0007]/);
});

test("numbers are short enough for an address", () => {
  assert.equal(written(1 / 3), "0.333333");
  assert.equal(written(0.1), "0.1");
  assert.equal(written([0.5, 2 ** 31]), "0.5,2147483648");
});

const entriesOf = (names) => names.map((name) => [name.toUpperCase(), name]);
const columns = new Columns({
  choices: {
    method: entriesOf(["ar", "gsd", "ersd"]),
    topology: entriesOf(["simple", "sequence", "auto"]),
    draft: entriesOf(["own", "noisy"]),
  },
  withoutK: ["simple", "auto"],
  mostColumns: 4,
  mostDrafted: 64,
});

test("columns of the comparison are read as they are written", () => {
  for (const text of ["ar", "ersd.sequence.4.own", "gsd.simple.noisy,ersd.auto.own,ar,gsd.sequence.64.own"]) {
    assert.equal(columns.writtenAll(columns.parsedAll(text)), text);
  }
  const ids = columns.parsedAll("ar,ar").map(({ id }) => id);
  assert.equal(new Set(ids).size, 2);
});

test("what is no column is refused with what a right one looks like", () => {
  const sizes = ["0", "65", "04"].map((k) => `ersd.sequence.${k}.own`);
  for (const text of ["", "ersd", "ersd.sequence.own", "ersd.simple.4.own", ...sizes])
    assert.throws(() => columns.parsedAll(text), /write a column like ersd\.sequence\.4\.own, or ar/, text);
  assert.throws(() => columns.parsedAll("ar,ar,ar,ar,ar"), /5 columns; at most 4/);
});
