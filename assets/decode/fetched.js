// The run that the address of the embedded page names: a recorded one, or settings with which the server decodes.

/** @import { Generation, Round } from "../types.d.ts" */

const NAME = /^[\w-]+$/;
const FAILED = "The server did not decode this run. Try again later.";

const at = (address) => new URL(address, document.baseURI).href;

async function answered(address, options) {
  const answer = await fetch(at(address), options);
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw new Error(said.detail ?? `The server answered ${answer.status}.`);
}

// A recorded run as JSON.
export async function recordedRun(name) {
  if (!NAME.test(name)) throw new Error(`“${name.slice(0, 60)}” is no name of a recorded run.`);
  return (await answered(`files/traces/${name}.json`)).text();
}

// The settings of an address in the order of the endpoint's parameters; `components/server/endpoint.py` has them.
function parameters(asked) {
  const number = (name, other) => (asked.has(name) ? Number(asked.get(name)) : other);
  return [
    asked.get("prompt"),
    asked.get("method") ?? "ersd",
    "optimal",
    number("k", 4),
    number("length", 64),
    number("temperature", 1),
    number("top-k", 0),
    number("top-p", 1),
    number("seed", 0),
    ["1", "true"].includes(asked.get("chat")),
    asked.get("tree") ?? "",
  ];
}

// The rounds of a run that the server decodes now.
/** @returns {Promise<Round[]>} */
async function rounds(data) {
  const address = "gradio_api/call/generate";
  const headers = { "content-type": "application/json" };
  const begun = await answered(address, { method: "POST", headers, body: JSON.stringify({ data }) });
  const { event_id } = await begun.json();
  const stream = new EventSource(at(`${address}/${event_id}`));
  return new Promise((done, failed) => {
    /** @type {Round[]} */
    const found = [];
    stream.addEventListener("generating", ({ data: text }) => found.push(JSON.parse(JSON.parse(text)[0])));
    stream.addEventListener("complete", () => (found.length > 0 ? done(found) : failed(new Error(FAILED))));
    stream.addEventListener("error", () => failed(new Error(FAILED)));
  }).finally(() => stream.close());
}

// A run with the settings of an address, decoded now, as JSON.
export async function decodedRun(asked) {
  const data = parameters(asked);
  const [prompt, method, , , max_new_tokens, temperature, top_k, top_p, seed, chat] = data;
  const decoded = await rounds(data);
  const paths = decoded.map(({ nodes }) => nodes.map(({ path }) => path)).sort((a, b) => b.length - a.length)[0];
  const models = { target: "the large model", draft: method === "ar" ? "" : "the small model" };
  const sampled = { seed, temperature, top_k, top_p, max_new_tokens };
  const run = { method, paths, prompt, prompt_ids: [], ...sampled, ...models, prefill_seconds: 0, rounds: decoded };
  return JSON.stringify({ ...run, chat, arithmetic: "", draft_temperature: null, baseline: [], timings: [] });
}
