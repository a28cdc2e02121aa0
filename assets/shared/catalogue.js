// Names of what there is. Written by `python -m components.page.catalogue`.

export const METHODS = {
  ar: "autoregressive",
  gsd: "GSD",
  ersd: "ERSD",
  traversal: "Traversal",
  specinfer: "SpecInfer",
  spectr: "SpecTr",
};
export const KINDS = {
  accepted: "accepted draft token",
  bonus: "bonus token",
  residual: "token sampled from the residual",
  correction: "correction: the target's winner",
  sampled: "sampled token",
};
export const STATUSES = {
  accepted: "accepted",
  rejected: "rejected",
  unvisited: "not used",
};
// Methods whose text of a seed is the same whatever drafts.
export const INVARIANT = ["ar", "ersd"];
