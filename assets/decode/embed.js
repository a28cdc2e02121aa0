// The HTML of a frame in which any other page shows the run: a recorded run by its name, any other by its settings.

import { state } from "../shared/store.js";
import { written } from "./fields.js";

const HEIGHT = 640; // pixels

// recorded: whether the shown run is one of the page's recorded runs.
export function frameCode(recorded) {
  const url = new URL("embed", document.baseURI);
  const { setup } = state;
  const values = recorded
    ? { trace: state.recorded.name }
    : {
        prompt: setup.prompt,
        method: setup.method,
        k: setup.paths.length || 1,
        length: setup.max_new_tokens,
        temperature: setup.temperature,
        "top-k": setup.top_k,
        "top-p": setup.top_p,
        seed: setup.seed,
        tree: written(setup.paths),
      };
  for (const [name, value] of Object.entries(values)) url.searchParams.set(name, String(value));
  const address = url.href.replaceAll("&", "&amp;").replaceAll('"', "%22");
  return `<iframe src="${address}" title="A run of speculative decoding" width="100%" height="${HEIGHT}" style="border: 0" loading="lazy"></iframe>`;
}
