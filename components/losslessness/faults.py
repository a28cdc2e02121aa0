"""The descriptions of the faults of `specdec.exactness`: a title, what is wrong, and why it matters."""

FAULT_WORDS = {
    "kept-target": (
        "The residual is forgotten",
        "After a rejection the next token is sampled from P itself instead of the residual max(P − Q, 0). "
        "Tokens that the draft proposes often had their chance already, so they are written too often.",
    ),
    "kept-draft": (
        "A rejected token stays in Q",
        "Siblings are drawn without replacement, so after a rejection Q must be renormalised without the "
        "rejected token. Here it is not: the next sibling is tested against too small a q, and accepted too "
        "often.",
    ),
    "shared-uniform": (
        "One random number for all siblings",
        "The second child is tested with the same u that has just rejected the first one. That u is known to "
        "be large by then, so the second child is rejected too often.",
    ),
    "uniform-from-race": (
        "The test reuses the race's noise",
        "The number u comes from the race that chose the draft. Test and draft are then no longer "
        "independent: the number that made the token win the race also influences its test.",
    ),
    "residual-from-race": (
        "The residual reuses the race's noise",
        "After a rejection the residual is sampled with the same noise that made the draft win. Tokens that "
        "lost the draft's race are then at a disadvantage again. The error is too small for a reader to "
        "notice, but a count shows it. An engine's release of 2026 did this.",
    ),
    "after-a-cut": (
        "Q from before top-k",
        "A draft that samples only from its likeliest tokens must report the probabilities after this cut. "
        "Here it reports those before the cut, which are four fifths as large. So p/q is too large, and the "
        "draft is accepted too often. A library's release of 2026 did this.",
    ),
    "own-sample": (
        "The test uses the p of another token",
        "The drafted token is tested with the p of a token that the target sampled, instead of its own p. A "
        "public system did this. The texts look fine, but do not have the target's "
        "distribution.",
    ),
    "greedy-draft": (
        "The draft is greedy, but its q is not",
        "The draft proposes its likeliest token every time, but reports the q of sampling. The token is "
        "tested as if it were proposed only as often as q says, so it is written too often. A library did "
        "this.",
    ),
    "thrown-away": (
        "An unlikely draft is dropped",
        "A drafted token with a small q is dropped after it was drawn, to save the target a row. Whether a "
        "token is tested then depends on which token was drawn: unlikely tokens are written too seldom, even "
        "if the draft is perfect.",
    ),
    "race-under-draft": (
        "The race is run under Q",
        "Verification divides the noise by q instead of p; the paper's Algorithm 5 has this by a slip. "
        "The draft then always wins. A target call yields the most tokens, and the texts have the draft's "
        "distribution.",
    ),
    "new-race": (
        "The correction is sampled again",
        "If no drafted token is the winner, the decoder emits a new sample of P instead of the winner "
        "itself. Tokens that are easily accepted get a second chance there and are written too often.",
    ),
    "one-race": (
        "One race for all positions",
        "All positions of a round use the noise of the first position. The first token is still right, but "
        "the later ones depend on it wrongly. With one token per decode the check finds nothing.",
    ),
    "one-test": (
        "One random number for all leaves",
        "Every leaf of a round is tested with the same u. A u that has rejected one leaf is known to be "
        "large, so the leaves that are tested after it are rejected too often.",
    ),
    "uncapped-end": (
        "Weights are not capped at the end",
        "The weight of a path is the product of p/q along it, and is capped at 1 after each token. Here the "
        "last token gets the product without the caps, so that a large p/q at the beginning makes up "
        "for a small one later. A published rule did this. With one token per decode the check finds "
        "nothing.",
    ),
    "lost-draft": (
        "A rejected token is taken out of Q",
        "SpecInfer's drafts are drawn independently, so the next one may be any token. Here Q is "
        "renormalised without the rejected token, as if drafts were drawn without replacement. The next "
        "draft is then tested against too large a q.",
    ),
    "no-threshold": (
        "The threshold of a single draft",
        "SpecTr tests each of n drafts against p/(ρq), with a ρ that grows with n. Here ρ stays 1. Each "
        "draft is then accepted as often as a single draft, so one of the n is accepted too often.",
    ),
}
"""Title and explanation of every fault."""

_GITHUB = "https://github.com/"
CASES = (
    (
        "greedy-draft",
        "transformers#32867",
        f"{_GITHUB}huggingface/transformers/issues/32867",
        "the draft was always greedy, but q was that of sampling. In 5.23, Gemma 4's assistants repeat this.",
    ),
    (
        "after-a-cut",
        "transformers#47932",
        f"{_GITHUB}huggingface/transformers/issues/47932",
        "q came from before top-k. Its report measured a total variation of .0485 in the median of 477 "
        "positions, and of .3065 in the worst.",
    ),
    (
        "residual-from-race",
        "vllm#47386",
        f"{_GITHUB}vllm-project/vllm/issues/47386",
        "draft and residual were sampled with the same noise: a token of probability 60% was written in "
        "63.04% of 131,072 trials. #54282 fixed it.",
    ),
    (
        "uncapped-end",
        "vllm-ascend#7807",
        f"{_GITHUB}vllm-project/vllm-ascend/issues/7807",
        "another wrong form of block verification, in which tests of single tokens decided about the whole "
        "block.",
    ),
    (
        "race-under-draft",
        "openvino.genai#2331",
        f"{_GITHUB}openvinotoolkit/openvino.genai/pull/2331",
        "here, too, every draft won: tokens copied from the prompt were always accepted.",
    ),
    (
        "thrown-away",
        "llama.cpp#22506",
        f"{_GITHUB}ggml-org/llama.cpp/pull/22506",
        "an unlikely last draft is dropped. That is right with its default rule, which compares drafts with "
        "the target's own samples, and wrong with a test of p/q.",
    ),
)
"""Real cases: the fault, the number of the report, its address, and what happened."""
