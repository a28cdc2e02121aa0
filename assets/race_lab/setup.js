// The race laboratory's setup in the page's address.

import { written, writtenNames } from "../page/setup_fields.js";
import { sum } from "../shared/totals.js";
import { FEWEST, MOST, START_SEED } from "./model.js";

const SEEDS = { kind: "number", default: null, least: 0, most: 2 ** 31, whole: true };
const WEIGHTS = { kind: "list", default: null, least: 0, most: 1, fewest: FEWEST, longest: MOST };

const fieldsOf = (presets, { u, many }) => ({
  preset: { kind: "choice", default: presets[0].id, choices: presets.map(({ id }) => id) },
  tokens: { kind: "names", default: null, fewest: FEWEST, longest: MOST },
  p: WEIGHTS,
  q: WEIGHTS,
  e: { kind: "list", default: null, least: 0.001, most: 100, fewest: FEWEST, longest: MOST },
  seed: SEEDS, // the seed of the drawn race
  u: { kind: "number", default: u, least: 0, most: 1 },
  many: { ...SEEDS, default: many, least: 1 }, // the seed of the 10,000 races
});

const column = (tokens, name) => tokens.map((token) => Number(token[name].toPrecision(5)));

// The tokens of an address that gives their probabilities.
function own({ p, q, tokens, e }) {
  if (!p || !q)
    throw new RangeError("race.p and race.q belong together: give the probabilities of the same tokens under both.");
  const names = tokens ?? [..."abcdefgh"].slice(0, p.length);
  for (const [name, list] of Object.entries({ q, tokens: names, e: e ?? p })) sameLength(name, list, p.length);
  return names.map((name, i) => ({ name, p: scaled("p", p)[i], q: scaled("q", q)[i] }));
}

function sameLength(name, list, length) {
  if (list.length !== length)
    throw new RangeError(
      `race.${name} has ${list.length} entries for ${length} tokens: give one entry for each token.`,
    );
}

// Scales the values to sum 1, because rounded digits need not add up to 1.
function scaled(name, weights) {
  const total = sum(weights);
  if (!(Math.abs(total - 1) < 0.01))
    throw new RangeError(
      `race.${name} = “${written(weights)}” adds up to ${Number(total.toFixed(4))}: probabilities must add up to 1.`,
    );
  return weights.map((weight) => weight / total);
}

// start: the values { u, many } with which the laboratory opened.
export function setupOf(lab, start) {
  return {
    fields: fieldsOf(lab.presets, start),
    get() {
      const { tokens, preset, seed, moved, results } = lab;
      const distributions = preset
        ? { preset: preset.id }
        : { tokens: writtenNames(tokens.map(({ name }) => name)), p: column(tokens, "p"), q: column(tokens, "q") };
      const race = seed !== null && !moved ? { seed } : moved || !preset ? { e: column(tokens, "e") } : {};
      const many = results.result?.measured ? results.result.seed : start.many;
      return { ...distributions, ...race, u: lab.u, many };
    },
    set(values) {
      const { p, q, e, seed } = values;
      if (p || q) lab.set(own(values), "");
      else lab.load(lab.presets.find(({ id }) => id === values.preset));
      if (seed !== null || p) lab.reroll(seed ?? START_SEED);
      if (e) {
        sameLength("e", e, lab.tokens.length);
        lab.setRace(e);
      }
      lab.setU(values.u);
      lab.simulate(values.many);
    },
  };
}
