// The HTML of a frame with this run for other pages. Its address names a recorded run, or has a run's settings.

import { state } from "../shared/store.js";
import { settingsOf } from "./fields.js";

const HEIGHT = 640; // pixels

// recorded: whether the shown run is one of the page's recorded runs.
export function frameCode(recorded) {
  const url = new URL("embed", document.baseURI);
  const settings = () => ({ ...settingsOf(state.setup), chat: Number(state.setup.chat ?? false) });
  const values = recorded ? { trace: state.recorded.name } : settings();
  for (const [name, value] of Object.entries(values)) url.searchParams.set(name, String(value));
  const address = url.href.replaceAll("&", "&amp;").replaceAll('"', "%22");
  return `<iframe src="${address}" title="A run of speculative decoding" width="100%" height="${HEIGHT}" style="border: 0" loading="lazy"></iframe>`;
}
