// Names of methods, tokens and statuses. Written by `python -m components.page.catalogue`.
// METHOD_SENTENCES: by the method's short name. INVARIANT: methods whose text for a seed does not
// depend on the draft. INDEPENDENT: methods whose drafts are independent draws. JOINT: methods
// that decide on several positions at once.
// biome-ignore-all format: generated

export const METHODS = {
 "ar": "autoregressive",
 "gsd": "GSD",
 "ersd": "ERSD",
 "traversal": "Traversal",
 "specinfer": "SpecInfer",
 "spectr": "SpecTr"
};
export const KINDS = {
 "accepted": "accepted draft token",
 "bonus": "bonus token",
 "residual": "token sampled from the residual",
 "correction": "correction: the large model's winner",
 "sampled": "sampled token"
};
export const STATUSES = {
 "accepted": "accepted",
 "rejected": "rejected",
 "unvisited": "not used"
};
export const METHOD_SENTENCES = {
 "autoregressive": "Autoregressive decoding: the target writes alone, one token per call.",
 "GSD": "Greedy speculative decoding: a drafted token is accepted with probability p / q. If all alternatives are rejected, a token is sampled from the residual.",
 "ERSD": "Exponential-race speculative decoding: both models run a race with the same random numbers. A drafted token is accepted if it wins the target's race.",
 "Traversal": "Traversal verification: whole paths of drafted tokens are tested, from the leaves of the tree upwards. If the tree is one path, this is block verification.",
 "SpecInfer": "SpecInfer's multi-step speculative sampling: independent drafts are tested one by one. After each rejection the residual replaces the target's distribution.",
 "SpecTr": "SpecTr's k-sequential selection: independent drafts are tested one by one, all with the same threshold."
};
export const INVARIANT = ["ar", "ersd"];
export const INDEPENDENT = ["specinfer", "spectr"];
export const JOINT = ["traversal"];
