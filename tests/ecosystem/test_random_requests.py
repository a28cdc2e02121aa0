"""Random requests: greedy texts equal those of transformers, and transformers could give each sampled
text."""

import random

import pytest
import torch
from transformers import LogitsProcessor, RepetitionPenaltyLogitsProcessor

import specdec
from specdec.topology import batch, sequence, specinfer
from tests.ecosystem.test_custom_generate import models

EOS = 2
REQUESTS = 40


class Caches(LogitsProcessor):
    """A user's own processor. It prefers a token that depends on the row's place and text. It initialises
    itself at its first call, and stores its answers."""

    width = None

    def __init__(self):
        self.likes = {}

    def __call__(self, input_ids, scores):
        self.width = self.width or scores.shape[-1]
        for row, text in enumerate(map(tuple, input_ids.tolist())):
            scores[row, self.likes.setdefault((row, text), (sum(text) + row) % self.width)] += 8
        return scores


OPTIONS = {
    "repetition_penalty": lambda rng: rng.choice([0.7, 1.3, 2.0]),
    "no_repeat_ngram_size": lambda rng: rng.randint(1, 3),
    "encoder_repetition_penalty": lambda rng: rng.choice([0.8, 1.4]),
    "encoder_no_repeat_ngram_size": lambda rng: rng.randint(2, 3),
    "bad_words_ids": lambda rng: [[rng.randrange(3, 40)], [rng.randrange(3, 40), rng.randrange(3, 40)]],
    "suppress_tokens": lambda rng: rng.sample(range(3, 40), 5),
    "begin_suppress_tokens": lambda rng: rng.sample(range(3, 40), 10),
    "sequence_bias": lambda rng: [[[rng.randrange(3, 40)], 5.0], [[rng.randrange(3, 40), 7], -4.0]],
    "forced_bos_token_id": lambda rng: rng.randrange(3, 40),
    "forced_eos_token_id": lambda rng: EOS,
    "min_new_tokens": lambda rng: rng.randint(1, 6),
    "eos_token_id": lambda rng: [EOS, *rng.sample(range(3, 40), 6)],
    "exponential_decay_length_penalty": lambda rng: (rng.randint(1, 5), 1.5),
    "renormalize_logits": lambda rng: True,
    "remove_invalid_values": lambda rng: True,
    "prefix_allowed_tokens_fn": lambda rng: lambda row, ids: [EOS, *range(3 + row, 30, 1 + int(ids[-1]) % 3)],
    "watermarking_config": lambda rng: {"bias": 2.5, "seeding_scheme": rng.choice(["lefthash", "selfhash"])},
    "logits_processor": lambda rng: [Caches(), RepetitionPenaltyLogitsProcessor(1.5)],
}
WARPERS = {
    "temperature": lambda rng: rng.choice([0.3, 0.8, 1.5]),
    "top_k": lambda rng: rng.choice([0, 1, 4, 20]),
    "top_p": lambda rng: rng.choice([0.2, 0.7, 0.95]),
    "min_p": lambda rng: rng.choice([0.05, 0.2]),
    "typical_p": lambda rng: rng.choice([0.3, 0.9]),
    "epsilon_cutoff": lambda rng: 0.02,
    "eta_cutoff": lambda rng: 0.02,
    "top_h": lambda rng: 0.5,
}


def random_request(rng, only=None):
    """Arguments of `generate` for both ways of decoding, and those for our decoding alone.

    only: the one option of a greedy request; otherwise up to four options are drawn.
    """
    lengths = [rng.randint(1, 7) for _ in range(rng.choice([1, 1, 2, 3]))]
    texts = [[rng.randrange(3, 40) for _ in range(length)] for length in lengths]
    for text in texts:
        if rng.random() < 0.3:
            text[-1] = EOS
    width = max(lengths)
    request = {
        "input_ids": torch.tensor([[0] * (width - len(text)) + text for text in texts]),
        "attention_mask": torch.tensor([[0] * (width - len(text)) + [1] * len(text) for text in texts]),
        "max_length": width + rng.randint(6, 14),
        "pad_token_id": 1,
        "do_sample": not only and rng.random() < 0.4,
    }
    options = OPTIONS | (WARPERS if request["do_sample"] else {})
    for name in [only] if only else rng.sample(list(options), rng.randint(0, 4)):
        request[name] = options[name](rng)
    ours = {
        "topology": rng.choice([sequence(1), sequence(3), batch(3), specinfer(6)]),
        "method": rng.choice(["ersd", "gsd", "traversal", "specinfer"]),
        "seed": rng.randrange(1000),
    }
    return request, ours


@pytest.fixture(scope="module")
def pair():
    torch.manual_seed(3)
    return models(vocab_size=48, eos_token_id=EOS)


@pytest.mark.parametrize("case", [*OPTIONS, *range(REQUESTS)])
def test_a_random_request_is_served_as_by_transformers(pair, case):
    target, draft = pair
    request, own = random_request(random.Random(case), case if case in OPTIONS else None)
    sequences = target.generate(**request, custom_generate=specdec.custom_generate, draft=draft, **own)
    if request["do_sample"]:
        assert possible(target, request, sequences)
    else:
        assert torch.equal(sequences, target.generate(**request))


def test_impossible_texts_are_noticed(pair):
    """Negative control: texts that were sampled without the warpers of their request."""
    target, _ = pair
    request = {"input_ids": torch.tensor([[5, 9, 30]]), "attention_mask": torch.ones(1, 3, dtype=torch.long)}
    request |= {"do_sample": True, "max_new_tokens": 8, "pad_token_id": 1}
    torch.manual_seed(0)
    assert possible(target, request | {"top_k": 4}, target.generate(**request, top_k=4))
    for warper in ({"top_k": 2}, {"top_p": 0.05}, {"min_p": 0.5}, {"suppress_tokens": list(range(20))}):
        assert not possible(target, request | warper, target.generate(**request, top_k=0))


def possible(target, request, sequences):
    """Whether transformers' processors leave every token of these texts a probability above 0."""
    start = request["input_ids"].shape[1]
    mask = torch.cat([request["attention_mask"], torch.ones_like(sequences[:, start:])], 1)
    positions = (mask.cumsum(-1) - 1).clamp_min(0)
    with torch.no_grad():
        logits = target(sequences, attention_mask=mask, position_ids=positions).logits.float()

    def follow(model, input_ids, logits_processor, stopping_criteria, **_):
        has_ended = torch.zeros(len(sequences), dtype=torch.bool)
        for end in range(start, sequences.shape[1]):
            scores = logits_processor(sequences[:, :end], logits[:, end - 1].clone())
            is_possible = scores.gather(1, sequences[:, end, None])[:, 0].isfinite()
            if not (is_possible | has_ended).all():
                return False
            has_ended |= stopping_criteria(sequences[:, : end + 1], None)
        return True

    return target.generate(**request, custom_generate=follow)
