// One story of the game: the words that the visitor typed, the target's decision on each of them, and the
// results of the other two drafters, the small model and n-grams.

import { sum } from "../shared/totals.js";

/**
 * Kept: the result of another drafter in a round. Played: the server's answer to a guess, and the seconds that the
 * visitor took to type it. Total: the sums of one drafter, and its seconds in each round in which it drafted.
 * @typedef {{ drafted: number, accepted: number, seconds: number }} Kept
 * @typedef {import("../types.d.ts").Token} Token
 * @typedef {{ text: string, status: import("../types.d.ts").Status, p: number | null }} Typed
 * @typedef {{ tokens: Token[], guess: Typed[], others: { draft: Kept, ngram: Kept }, ended: boolean, seconds: number }} Played
 * @typedef {{ drafted: number, accepted: number, seconds: number[], tokens: number }} Total
 */

export const START = 19; // the seed of the first story

// The story's values in the page's address: the number of its opening, its temperature and its seed.
export const fieldsOf = ({ openings, temperatures }) => ({
  opening: { kind: "number", default: 1, least: 1, most: openings.length, whole: true },
  temperature: { kind: "choice", default: 0.5, choices: temperatures },
  seed: { kind: "number", default: START, least: 0, most: 2 ** 53 - 1, whole: true },
});

export class Game {
  /** @param {{ prompt: string, seed: number, temperature: number }} story */
  constructor(story, length) {
    this.story = story;
    this.length = length;
    /** @type {Played[]} */
    this.rounds = [];
    this.alone = null; // the story as the target writes it alone, once the visitor has asked for it
    this.given = false; // whether the visitor has ended the story
  }

  /** Ids of the tokens after the opening. */
  get written() {
    return this.rounds.flatMap(({ tokens }) => tokens.map(({ id }) => id));
  }

  get text() {
    return this.rounds.flatMap(({ tokens }) => tokens.map(({ text }) => text)).join("");
  }

  get isOver() {
    return this.given || this.rounds.at(-1)?.ended || this.written.length >= this.length;
  }

  /** The totals of each drafter: you, the small model and n-grams, all at the same positions. */
  get totals() {
    const you = this.rounds.map(({ guess, seconds }) => ({
      drafted: guess.length,
      accepted: guess.filter(({ status }) => status === "accepted").length,
      seconds,
    }));
    return {
      you: total(you),
      draft: total(this.rounds.map(({ others }) => others.draft)),
      ngram: total(this.rounds.map(({ others }) => others.ngram)),
    };
  }
}

// A call writes the accepted tokens and one more. An empty draft takes no time.
/** @param {Kept[]} rounds @returns {Total} */
function total(rounds) {
  const accepted = sum(rounds.map((round) => round.accepted));
  return {
    drafted: sum(rounds.map((round) => round.drafted)),
    accepted,
    seconds: rounds.filter(({ drafted }) => drafted > 0).map(({ seconds }) => seconds),
    tokens: rounds.length + accepted,
  };
}

/** The number of equal tokens at the start of both texts. */
export function shared(one, other) {
  const parted = one.findIndex((id, i) => id !== other[i]);
  return parted < 0 ? one.length : parted;
}
