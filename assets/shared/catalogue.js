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
 "autoregressive": "Autoregressive decoding: the target alone, one token per target call.",
 "GSD": "Greedy speculative decoding: accept a draft with probability p / q, or sample from the residual.",
 "ERSD": "Exponential-race speculative decoding: both models race on the same noise. A token that wins both is kept.",
 "Traversal": "Traversal verification: decide on whole paths, leaves first; on a sequence this is block verification.",
 "SpecInfer": "SpecInfer's multi-step speculative sampling: test independent drafts one by one, each against the residual of those before it.",
 "SpecTr": "SpecTr's k-sequential selection: test independent drafts against one threshold for all of them."
};
export const INVARIANT = [
 "ar",
 "ersd"
];
export const INDEPENDENT = [
 "specinfer",
 "spectr"
];
export const JOINT = [
 "traversal"
];
