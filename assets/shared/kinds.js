// The kinds of tokens that a round can emit, in words.

export { KINDS as NAMES } from "./catalogue.js";
