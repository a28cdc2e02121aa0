// The recorded runs that the page ships: what the scripts are tested on.

import { readdirSync, readFileSync } from "node:fs";
import { parse, toRun } from "../../assets/shared/trace.js";

const FOLDER = new URL("../../assets/traces/", import.meta.url);
const names = readdirSync(FOLDER).filter((name) => name.endsWith(".json") && name !== "index.json");

export const texts = Object.fromEntries(names.map((name) => [name, readFileSync(new URL(name, FOLDER), "utf8")]));
export const runs = Object.fromEntries(names.map((name) => [name, toRun(parse(texts[name]))]));
