// Parts of the set-up that are Gradio's components: events of the hidden kind carry their values to and fro.

import { differing, readAll, written } from "./setup_fields.js";

const same = { __type__: "update" };
const isSet = (field, value) => written(value ?? "") !== written(field.default ?? "");

// Offers every part of `fields`, { part: { name: description } }. What Gradio's events call with the values of all
// components: heard(values), and wanted(values), which answers with those to be set.
export function mountFields({ fields, alone }, trigger, offer) {
  const places = Object.entries(fields).flatMap(([part, of]) => Object.keys(of).map((key) => [part, key]));
  const defaults = (of) => Object.fromEntries(Object.entries(of).map(([key, field]) => [key, field.default]));
  const now = Object.fromEntries(Object.entries(fields).map(([part, of]) => [part, defaults(of)]));
  const asked = new Set();
  let opening = true; // the page is: what a visitor has set meanwhile stays, whatever the address says

  function set(part, texts) {
    const name = (key) => (part === alone ? key : `${part}.${key}`);
    const { values, messages } = readAll(texts, fields[part], name);
    now[part] = values;
    asked.add(part);
    trigger("submit");
    return messages;
  }

  function wanted(values) {
    if (opening)
      places.forEach(([part, key], i) => isSet(fields[part][key], values[i]) && (now[part][key] = values[i]));
    opening = false;
    const changes = places.map(([part, key]) => (asked.has(part) ? now[part][key] : same));
    asked.clear();
    return changes;
  }

  function heard(values) {
    if (asked.size > 0) return; // what is wanted is still on its way
    places.forEach(([part, key], i) => (now[part][key] = values[i]));
  }

  for (const [part, of] of Object.entries(fields)) {
    offer(
      part,
      { get: () => differing(now[part], of), set: (texts) => set(part, texts) },
      part === alone ? Object.keys(of) : undefined,
    );
  }
  trigger("submit"); // also without an address: what a visitor has set before this script was there
  return { heard, wanted };
}
