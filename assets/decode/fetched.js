// The run that the address of an embedded page names: a recorded run, or settings that the server decodes.

import { stream, urlOf } from "../shared/server.js";
import { SETTINGS } from "../shared/settings.js";
import { recordedSettings } from "../shared/trace.js";

/** @import { Generation, Round } from "../types.d.ts" */

const NAME = /^[\w-]+$/;
const FAILED = "The server did not decode this run. Try again later.";

async function answered(address, options) {
  const answer = await fetch(urlOf(address), options);
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  throw new Error(body.detail ?? `The server answered ${answer.status}.`);
}

// A recorded run as JSON.
export async function recordedRun(name) {
  if (!NAME.test(name)) throw new Error(`“${name.slice(0, 60)}” is not the name of a recorded run.`);
  return (await answered(`files/traces/${name}.json`)).text();
}

// The settings of an address as parameters of the endpoint, as `components/page/settings.py` describes them.
function parameters(query) {
  const valueIn = ({ kind, address, remote }) => {
    if (!query.has(address)) return remote;
    const text = query.get(address);
    return kind === "number" ? Number(text) : kind === "flag" ? ["1", "true"].includes(text) : text;
  };
  const values = SETTINGS.map((setting) => [setting.name, valueIn(setting)]);
  return { ...Object.fromEntries(values), topology: query.get("topology") ?? "optimal" };
}

// The rounds of a run that the server decodes now.
/** @returns {Promise<Round[]>} */
function rounds(values) {
  return new Promise((resolve, reject) => {
    /** @type {Round[]} */
    const all = [];
    stream("decode", values, {
      update(text) {
        const { phase, message, rounds } = JSON.parse(text);
        if (phase === "error") reject(new Error(message));
        all.push(...rounds);
      },
      ended: (message) => (message || all.length === 0 ? reject(new Error(message || FAILED)) : resolve(all)),
    });
  });
}

// A run with the settings of an address, decoded now, as JSON.
export async function decodedRun(query) {
  const values = parameters(query);
  const decoded = await rounds(values);
  const paths = decoded.map(({ nodes }) => nodes.map(({ path }) => path)).sort((a, b) => b.length - a.length)[0];
  const models = { target: "the large model", draft: values.method === "ar" ? "" : "the small model" };
  const settings = recordedSettings({ ...values, history: [] });
  return JSON.stringify({ ...settings, ...models, paths, rounds: decoded, prompt_ids: [], prefill_seconds: 0 });
}
