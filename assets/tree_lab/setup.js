// The tree laboratory's setup in the page's address.

import { written } from "../page/setup_fields.js";
import { digits } from "../shared/labels.js";
import { sum } from "../shared/totals.js";

const RATE = { default: null, least: 0, most: 1 };

const fieldsOf = (presets, { k, most }) => ({
  preset: { kind: "choice", default: presets[0].id, choices: presets.map(({ id }) => id) },
  rates: { ...RATE, kind: "list", fewest: 1, longest: presets[0].rates.length },
  tail: { ...RATE, kind: "number", most: 0.95 },
  k: { kind: "number", default: k, least: 1, most, whole: true },
  decisions: { kind: "flag", default: false },
});

// The rates that an address gives, with 0 for each slider that it does not mention.
function own(rates, tail, length) {
  const later = (rates.at(length - 1) ?? 0) * (tail / (1 - tail));
  const total = sum(rates) + later;
  if (total > 1.0001)
    throw new RangeError(
      `trees.rates = “${written(rates)}” add up to ${digits(total)}: at most one child is accepted, so they may add up to at most 1.`,
    );
  const padded = [...rates, ...Array(length - rates.length).fill(0)];
  return { rates: padded.map((rate) => rate / Math.max(1, total)), tail, note: "" };
}

export function setupOf(lab, start) {
  const fields = fieldsOf(lab.presets, start);
  const box = lab.find(".decisions");
  return {
    fields,
    get() {
      const { preset, k, tail } = lab;
      const acceptance = preset ? { preset } : { rates: lab.rates.map((rate) => Number(rate.toPrecision(5))), tail };
      return { ...acceptance, k, decisions: box.checked };
    },
    set({ rates, preset, tail, k, decisions }) {
      const example = lab.presets.find(({ id }) => id === preset);
      const acceptance = rates ? own(rates, tail ?? 0, fields.rates.longest) : example;
      lab.pause();
      lab.k = k;
      if (box.checked !== decisions) box.click();
      lab.load(acceptance);
    },
  };
}
