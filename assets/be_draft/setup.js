// The story in the page's address: the number of its opening, its temperature and its seed.

import { differing, readAll } from "../page/setup_fields.js";

export const START = 19; // the seed that the page opens with

// story: the game's values by { get(), set({ opening, temperature, seed }) }.
export function setupOf({ openings, temperatures }, story) {
  const fields = {
    opening: { kind: "number", default: 1, least: 1, most: openings.length, whole: true },
    temperature: { kind: "choice", default: 0.5, choices: temperatures },
    seed: { kind: "number", default: START, least: 0, most: 2 ** 53 - 1, whole: true },
  };
  const get = () => differing(story.get(), fields);

  function set(texts) {
    const { values, messages } = readAll(texts, fields, (key) => `story.${key}`);
    story.set(values);
    return messages;
  }

  return { get, set };
}
