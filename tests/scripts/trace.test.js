import assert from "node:assert/strict";
import test from "node:test";
import { RECORD } from "../../assets/shared/record.js";
import { checkSize, fromState, parse, toRun } from "../../assets/shared/trace.js";
import { runs, texts } from "./recorded.js";

// The fields of a record that have a default, with it. Older records lack them.
const defaults = (record) =>
  Object.fromEntries(
    Object.entries(RECORD[record]).flatMap(([name, field]) => ("default" in field ? [[name, field.default]] : [])),
  );

test("a run that is opened and saved is the same file", () => {
  for (const [name, text] of Object.entries(texts)) {
    const file = { ...defaults("Generation"), ...JSON.parse(text) };
    for (const round of [...file.rounds, ...file.baseline])
      round.nodes = round.nodes.map((node) => ({ ...defaults("Node"), ...node }));
    assert.deepEqual(fromState(runs[name]), file, name);
    const json = JSON.stringify(fromState(runs[name]));
    assert.equal(JSON.stringify(fromState(toRun(parse(json)))), json, name);
  }
});

// All places of a value: [object that holds it, key, how a message calls it]; of lists the first item stands for all.
function* places(value, where = "") {
  for (const key of Array.isArray(value) ? [0].filter(() => value.length > 0) : Object.keys(value)) {
    const name = Array.isArray(value) ? `${where}[${key}]` : where === "" ? key : `${where}.${key}`;
    yield [value, key, name];
    if (value[key] !== null && typeof value[key] === "object") yield* places(value[key], name);
  }
}

const OPTIONAL = Object.keys(RECORD).flatMap((record) => Object.keys(defaults(record)));

test("fields that an older file lacks get their defaults", () => {
  const source = JSON.parse(texts["parting-gsd.json"]);
  const [run, node] = [defaults("Generation"), defaults("Node")];
  assert.equal(run.draft_temperature, null);
  for (const name of Object.keys(run)) delete source[name];
  for (const name of Object.keys(node)) delete source.rounds[0].nodes[0][name];
  const { rounds, ...parsed } = parse(JSON.stringify(source));
  assert.deepEqual({ ...parsed, ...run }, parsed);
  assert.deepEqual({ ...rounds[0].nodes[0], ...node }, rounds[0].nodes[0]);
});

test("whatever is broken or missing in a file, the message names its place", () => {
  const source = JSON.parse(texts["parting-gsd.json"]);
  const all = [...places(source)];
  assert.ok(all.length > 50);
  for (const [holder, key, name] of all) {
    const value = holder[key];
    for (const wrong of [{ not: "this" }, undefined, -1.5]) {
      if (wrong === undefined && (Array.isArray(holder) || OPTIONAL.includes(key))) continue;
      if (wrong === -1.5 && value === null) continue;
      if (key === "seconds" && wrong?.not) continue; // all of its fields have defaults
      holder[key] = wrong;
      const isNamed = ({ message }) => message.startsWith(name) && message.includes("should be");
      assert.throws(() => parse(JSON.stringify(source)), isNamed, `${name} = ${wrong}`);
    }
    holder[key] = value;
  }
  parse(JSON.stringify(source));
});

test("what no JSON reader takes, and what is too large, is said in words", () => {
  assert.throws(() => parse("{"), /not JSON/);
  assert.throws(() => parse("[]"), /the file is \[\]; it should be an object/);
  const long = { ...JSON.parse(texts["parting-gsd.json"]), prompt: "x".repeat(200_001) };
  assert.throws(() => parse(JSON.stringify(long)), /prompt is "x+…; it should be a text of at most 200000/);
  assert.throws(() => checkSize(6_000_000, 5_000_000), /the file has 6 MB; at most 5 MB/);
});

test("nodes stand below their parents, rounds are counted without gaps, steps fit their tokens", () => {
  const damage = [
    [(round) => (round.number += 1), /rounds\[0\]\.number/],
    [(round) => round.nodes.reverse(), /rounds\[0\]\.nodes\[\d+\]\.path/],
    [(round) => round.steps.pop(), /rounds\[0\]\.steps/],
    [(round) => (round.tokens = []), /rounds\[0\]\.tokens/],
    [(round) => (round.steps[0].path = [7, 7]), /rounds\[0\]\.steps\[0\]\.path/],
  ];
  for (const [spoil, message] of damage) {
    const value = JSON.parse(texts["wide-tree.json"]);
    spoil(value.rounds[0]);
    assert.throws(() => parse(JSON.stringify(value)), message);
  }
});
