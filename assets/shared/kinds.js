// The kinds of tokens that a round can emit.

// What each kind of token is, in words.
export const NAMES = {
  accepted: "accepted draft token",
  bonus: "bonus token",
  residual: "token sampled from the residual",
  correction: "correction: the target's winner",
  sampled: "sampled token",
};
