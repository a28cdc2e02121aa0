// The panel's set-up in the page's address.

import { differing, readAll } from "../page/setup_fields.js";

// panel: { start, presets, limits, state(): { preset, changes }, load(preset, changes) }. limits: [least, most] by the
// name of a value.
export function setupOf(panel) {
  const number = (name) => ({
    kind: "number",
    default: null,
    least: panel.limits[name][0],
    most: panel.limits[name][1],
  });
  const fields = {
    preset: { kind: "choice", default: panel.start, choices: panel.presets },
    acceptance: number("acceptance"),
    draft_step: number("draft_step"),
    rest: number("rest"),
    rows: { ...number("rows"), kind: "list", fewest: panel.rows, longest: panel.rows },
    texts: { ...number("texts"), whole: true },
    shape: { kind: "choice", default: null, choices: panel.shapes },
  };

  function get() {
    const { preset, changes } = panel.state();
    return differing(
      { ...Object.fromEntries(Object.keys(fields).map((name) => [name, null])), ...changes, preset },
      fields,
    );
  }

  function set(texts) {
    const { values, messages } = readAll(texts, fields, (key) => `payoff.${key}`);
    const { preset, ...changes } = values;
    panel.load(preset, Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== null)));
    return messages;
  }

  return { get, set };
}
