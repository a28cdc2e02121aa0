// The parts of the setup that are Gradio's components. Hidden Gradio events carry their values in both directions.

import { differing, readAll, written } from "./setup_fields.js";

const same = { __type__: "update" };
const isSet = (field, value) => written(value ?? "") !== written(field.default ?? "");

// Offers every part of `fields`, { part: { name: description } }. Gradio's events call heard(values) with the values of all
// components, and wanted(values), which answers with those to be set. assign(part, values, isBase) sets some of a part;
// values of a base stay out of the address, which names the run that they belong to. now(part) gives all of a part.
export function mountFields({ fields, alone, follows }, trigger, offer) {
  const places = Object.entries(fields).flatMap(([part, of]) => Object.keys(of).map((key) => [part, key]));
  const defaults = (of) => Object.fromEntries(Object.entries(of).map(([key, field]) => [key, field.default]));
  const now = Object.fromEntries(Object.entries(fields).map(([part, of]) => [part, defaults(of)]));
  // Values that were computed for others of their part. Without one, or with an empty one, it is computed again.
  const following = (part) => (part === alone ? Object.entries(follows) : []);
  const base = {}; // base values by part
  const asked = new Set();
  let opening = true; // while the page opens, values that the visitor has already set win over the address

  function set(part, texts) {
    const name = (key) => (part === alone ? key : `${part}.${key}`);
    const { values, messages } = readAll(texts, fields[part], name);
    now[part] = values;
    for (const [key, others] of following(part))
      if (texts[key] === undefined && others.some((other) => texts[other] !== undefined)) values[key] = "";
    asked.add(part);
    trigger("submit");
    return messages;
  }

  function assign(part, values, isBase) {
    Object.assign(now[part], values);
    if (isBase) base[part] = values;
    asked.add(part);
    trigger("submit");
  }

  // The values of a part that the address must contain: those that differ from the base, or from the default without a
  // base.
  function get(part) {
    const of = fields[part];
    const based = (key) => base[part]?.[key] !== undefined;
    const rest = Object.keys(of).filter((key) => !based(key));
    const changed = Object.keys(of).filter((key) => based(key) && written(now[part][key]) !== written(base[part][key]));
    const pick = (keys) => Object.fromEntries(keys.map((key) => [key, now[part][key]]));
    const said = { ...differing(pick(rest), of), ...pick(changed) };
    for (const [key] of following(part)) if (said[key] === "") delete said[key];
    return said;
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
    if (asked.size > 0) return; // the requested values have not arrived yet
    places.forEach(([part, key], i) => (now[part][key] = values[i]));
  }

  for (const [part, of] of Object.entries(fields)) {
    offer(
      part,
      { get: () => get(part), set: (texts) => set(part, texts) },
      part === alone ? Object.keys(of) : undefined,
    );
  }
  trigger("submit"); // also without an address, because the visitor may have set values before this script ran
  return { heard, wanted, assign, isTaken: () => asked.size === 0, now: (part) => ({ ...now[part] }) };
}
