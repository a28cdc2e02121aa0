import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import test from "node:test";
import { collected, nameOf, withNames } from "../../assets/decode/modules.js";

const ROOT = new URL("../../assets/", import.meta.url).href;
const START = new URL("decode/offline.js", ROOT).href;
const fromDisk = (address) => readFile(new URL(address), "utf8");
const fromMap = (sources) => async (address) => sources[address];

test("a saved page takes along what its panels import, each module once, and nothing of the server's page", async () => {
  const names = [...(await collected(START, fromDisk)).keys()].map((address) => nameOf(address, ROOT));
  for (const name of ["decode/tree.js", "decode/race.js", "decode/text.js", "shared/store.js"])
    assert.ok(names.includes(name), name);
  assert.equal(new Set(names).size, names.length);
  assert.ok(!names.includes("main.js") && !names.some((name) => name.startsWith("page/")));
});

test("in a saved page every import names a module that is there", async () => {
  const modules = await collected(START, fromDisk);
  const names = new Set([...modules.keys()].map((address) => nameOf(address, ROOT)));
  for (const [address, source] of modules) {
    const text = withNames(source, address, ROOT);
    assert.doesNotMatch(text, /(from|import)\s*\(?\s*"\.[^"]*\.js"/);
    for (const [, name] of text.matchAll(/\bfrom "([^"]+\.js)";/g)) assert.ok(names.has(name), name);
  }
});

test("every way to import is followed, also where modules import each other", async () => {
  const sources = {
    "http://x/a/one.js":
      'import {\n  two,\n} from "../b/two.js";\nimport "./three.js";\nexport { four } from "./four.js";\nconst five = () => import("./five.js");',
    "http://x/b/two.js": 'import * as one from "../a/one.js";',
    "http://x/a/three.js": 'const text = "./six.js";',
    "http://x/a/four.js": "",
    "http://x/a/five.js": "",
  };
  const modules = await collected("http://x/a/one.js", fromMap(sources));
  assert.deepEqual(new Set(modules.keys()), new Set(Object.keys(sources)));
  const text = withNames(sources["http://x/a/one.js"], "http://x/a/one.js", "http://x/");
  assert.deepEqual(
    [...text.matchAll(/"([^"]+)"/g)].map(([, name]) => name),
    ["b/two.js", "a/three.js", "a/four.js", "a/five.js"],
  );
});

test("a module that cannot be read fails the saved page, and none may lie outside", async () => {
  const gone = async () => {
    throw new Error("could not be read");
  };
  await assert.rejects(collected(START, gone), /could not be read/);
  assert.throws(() => nameOf("http://x/b.js", "http://x/a/"), /does not lie below/);
});
