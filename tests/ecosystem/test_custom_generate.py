"""transformers' `generate` with our decoding: the same texts, distributions, streams, batches and scores."""

import copy
import gc
import itertools
import pickle
import weakref
from functools import partial

import pytest
import torch
from transformers import (
    CompileConfig,
    GenerationConfig,
    StoppingCriteria,
    pipeline,
    set_seed,
)
from transformers.generation import logits_process as known
from transformers.generation import stopping_criteria

import specdec
from specdec.ecosystem import arguments, processors, wrapped
from specdec.models.cache import cache_argument
from specdec.topology import sequence, specinfer
from tests.helpers.distributions import chi_square_p_value
from tests.helpers.tiny_checkpoints import VOCAB_SIZE, noisy, tiny_model
from tests.helpers.tokenizers import END, byte_level_tokenizer, trained_tokenizer

GREEDY = ("llama", "phi3", "gemma3", "gpt2", "opt", "gpt_neox", "bloom", "lfm2", "qwen3_next")
PROMPT = torch.tensor([[5, 11, 17, 23, 5, 11]])
ROWS = torch.tensor([[0, 0, 7, 8, 9], [3, 4, 5, 6, 7], [0, 40, 41, 42, 43]])
MASK = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [0, 1, 1, 1, 1]])
ours = specdec.custom_generate


def models(family="llama", **changes):
    """A target, and a draft whose greedy tokens are often the target's."""
    target = tiny_model(family, **changes)
    return target, noisy(target, 0.05)


@pytest.fixture(scope="module")
def pair():
    torch.manual_seed(0)
    return models()


@pytest.fixture(scope="module")
def talking():
    torch.manual_seed(0)
    tokenizer = byte_level_tokenizer()
    tokenizer.pad_token, tokenizer.padding_side = END, "left"
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}:"
    return *models(vocab_size=len(tokenizer), eos_token_id=0), tokenizer


def equal(target, draft, inputs, **settings):
    theirs = target.generate(**inputs, **settings)
    sequences = target.generate(**inputs, **settings, custom_generate=ours, assistant_model=draft)
    assert torch.equal(sequences, theirs)
    return sequences


def decoded(pair, *inputs, **settings):
    return pair[0].generate(*inputs, **settings, custom_generate=ours, draft=pair[1])


@pytest.mark.parametrize("family", GREEDY)
def test_greedy_texts_are_those_of_transformers(family):
    torch.manual_seed(0)
    target, draft = models(family)
    capability = wrapped.wrapped_pair(target, draft, ()).target.capability
    topology = specinfer(6) if capability == "tree" else sequence(3)
    # transformers refuses an assistant_model for a target with a recurrent state
    name = "draft" if target._is_stateful else "assistant_model"
    settings = {"max_new_tokens": 24, "do_sample": False, "pad_token_id": 0}
    for inputs in ({"input_ids": PROMPT}, {"input_ids": ROWS, "attention_mask": MASK}):
        theirs = target.generate(**inputs, **settings)
        own = {"custom_generate": ours, name: draft, "topology": topology, "return_dict_in_generate": True}
        output = target.generate(**inputs, **settings, **own)
        assert torch.equal(output.sequences, theirs)
        assert sum(row.num_accepted for row in output.acceptance) > 0


@pytest.mark.parametrize("family", ["mamba", "gpt2"])
def test_plain_decoding_needs_no_draft(family):
    target = tiny_model(family)
    settings = {"max_new_tokens": 16, "do_sample": False, "pad_token_id": 0}
    sequences = target.generate(PROMPT, **settings, custom_generate=ours, method="ar")
    assert torch.equal(sequences, target.generate(PROMPT, **settings))


def next_scores(target, ids, **settings):
    return target.generate(ids, **settings, return_dict_in_generate=True, output_scores=True).scores[0][0]


@pytest.mark.parametrize(
    "warper",
    [
        partial(known.TopPLogitsWarper, 0.05, min_tokens_to_keep=5),
        partial(known.TopKLogitsWarper, 2, filter_value=-1.0),
    ],
)
def test_warpers_keep_their_own_settings(small, warper):
    """All tokens that are ever sampled have a probability in transformers' scores."""
    settings = {"do_sample": True, "top_k": 0, "logits_processor": [warper()], "max_new_tokens": 1}
    scores = next_scores(small[0], PROMPT % 6, **settings)
    sequences = decoded(small, PROMPT % 6, **settings, **SAMPLED)
    assert set(sequences[:, -1].tolist()) == set(scores.isfinite().nonzero().flatten().tolist())


SAMPLED = {"num_return_sequences": 500, "method": "ersd", "topology": sequence(1), "seed": 0}
DISTRIBUTIONS = [
    ("ersd", {"temperature": 0.7, "top_k": 4}),
    ("gsd", {"temperature": 1.3, "top_k": 0, "top_p": 0.9}),
    ("gsd", {"top_k": 0, "repetition_penalty": 1.8, "min_p": 0.05}),
    ("ersd", {"top_k": 5, "typical_p": 0.8, "no_repeat_ngram_size": 2}),
    ("gsd", {"top_k": 0, "top_h": 0.6, "epsilon_cutoff": 0.05, "eta_cutoff": 0.1}),
]


def distribution_of(target, prompt, settings):
    def next_distribution(ids):
        return next_scores(target, ids, **settings, do_sample=True, max_new_tokens=1).softmax(-1).double()

    first, distribution = next_distribution(prompt), {}
    for token_id in first.nonzero().flatten().tolist():
        second = next_distribution(torch.cat([prompt, torch.tensor([[token_id]])], 1))
        for other in second.nonzero().flatten().tolist():
            distribution[token_id, other] = float(first[token_id] * second[other])
    return distribution


def p_value(pair, distribution, settings, method):
    settings = {"do_sample": True, "max_new_tokens": 2} | settings | SAMPLED | {"method": method}
    sequences = decoded(pair, PROMPT % 6, **settings)
    return chi_square_p_value(map(tuple, sequences[:, -2:].tolist()), distribution)


@pytest.fixture(scope="module")
def small():
    """A pair of six tokens, none of which ends a text."""
    torch.manual_seed(1)
    target, draft = models(vocab_size=6, eos_token_id=None, num_hidden_layers=1, bos_token_id=None)
    return target, draft


@pytest.mark.slow
@pytest.mark.parametrize(("method", "settings"), DISTRIBUTIONS, ids="-".join)
def test_sampled_texts_have_the_distribution_of_transformers(small, settings, method):
    """Each of the five tests fails on correct code with probability 1e-6; seeds are fixed."""
    distribution = distribution_of(small[0], PROMPT % 6, settings)
    assert p_value(small, distribution, settings, method) > 1e-6


@pytest.mark.slow
def test_another_distribution_would_be_noticed(small, monkeypatch):
    """Negative control: processors that see the text without the drafted tokens."""
    settings = {"top_k": 0, "sequence_bias": {(token, (token + 1) % 6): 3.0 for token in range(6)}}
    distribution = distribution_of(small[0], PROMPT % 6, settings)
    processed = processors._ProcessedSession._processed

    def without_drafts(self, process, path, logits):
        return processed(self, process, path[:1], logits)

    monkeypatch.setattr(processors._ProcessedSession, "_processed", without_drafts)
    assert p_value(small, distribution, settings, "ersd") < 1e-6


class Pieces:
    def __init__(self):
        self.pieces = []

    def put(self, value):
        self.pieces.append(value.tolist())

    def end(self):
        self.pieces.append("end")


def test_streamers_get_the_same_pieces(talking):
    target, draft, tokenizer = talking
    inputs = tokenizer(["the cat", "once upon a time the"], return_tensors="pt", padding=True)
    settings = {"max_new_tokens": 20, "do_sample": False}
    theirs, streamer = Pieces(), Pieces()
    target.generate(**inputs, **settings, streamer=theirs)
    target.generate(**inputs, **settings, streamer=streamer, custom_generate=ours, assistant_model=draft)
    assert streamer.pieces == theirs.pieces
    assert len(streamer.pieces) > 5


@pytest.mark.parametrize("changes", [{}, {"repetition_penalty": 1.3}], ids=["native", "processed"])
def test_rows_are_those_alone(pair, changes):
    settings = {"do_sample": True, "max_new_tokens": 20, "pad_token_id": 0, "top_k": 0} | changes
    call = partial(decoded, pair, **settings)
    together = call(ROWS, attention_mask=MASK, seed=[4, 5, 6])
    for row, (ids, mask) in enumerate(zip(ROWS, MASK, strict=True)):
        alone = call(ids[mask.bool()][None], seed=4 + row)[0, mask.sum() :]
        assert together[row, 5 : 5 + len(alone)].tolist() == alone.tolist()
        assert not together[row, 5 + len(alone) :].any()


def test_text_is_that_of_the_decoder(pair):
    both = wrapped.wrapped_pair(*pair, ())
    g = specdec.generate(both, PROMPT, temperature=0.8, top_k=20, seed=7, max_new_tokens=20)
    config = GenerationConfig(do_sample=True, temperature=0.8, top_k=20, max_new_tokens=20)
    sequences = decoded(pair, PROMPT, generation_config=config, eos_token_id=None, seed=7)
    assert sequences[0, PROMPT.shape[1] :].tolist() == g.token_ids


def test_set_seed_holds(pair):
    def texts(seed):
        set_seed(seed)
        return decoded(pair, PROMPT, do_sample=True, num_return_sequences=3, max_new_tokens=12).tolist()

    assert texts(1) == texts(1) != texts(2)
    assert len({tuple(text) for text in texts(1)}) == 3


@pytest.mark.parametrize("changes", [{}, {"repetition_penalty": 1.3}], ids=["native", "processed"])
def test_scores_and_logits_are_those_of_transformers(pair, changes):
    settings = {"do_sample": False, "max_new_tokens": 12, "return_dict_in_generate": True} | changes
    settings |= {"output_scores": True, "output_logits": True, "eos_token_id": None, "pad_token_id": None}
    theirs = pair[0].generate(ROWS, attention_mask=MASK, **settings)
    output = decoded(pair, ROWS, attention_mask=MASK, **settings)
    for name in ("scores", "logits"):
        torch.testing.assert_close(torch.stack(output[name]), torch.stack(theirs[name]), atol=2e-4, rtol=1e-4)
    assert torch.equal(output.sequences, theirs.sequences)
    call = partial(decoded, pair, PROMPT, do_sample=True, seed=3, max_new_tokens=20)
    assert torch.equal(call(return_dict_in_generate=True, output_scores=True).sequences, call())


def test_stop_strings_end_a_text(talking):
    target, draft, tokenizer = talking
    inputs = tokenizer("the cat", return_tensors="pt") | {"do_sample": False}
    text = tokenizer.decode(target.generate(**inputs, max_new_tokens=30)[0])
    stop = text[len(text) // 2 :][:3]
    equal(target, draft, inputs, max_new_tokens=30, stop_strings=[stop], tokenizer=tokenizer)


class EverySeventh(StoppingCriteria):
    def __call__(self, input_ids, scores, **kwargs):
        return input_ids[:, -1] % 7 == 0


@pytest.mark.parametrize("eos", [2, None], ids=["padded", "going on"])
def test_criteria_end_rows(pair, eos):
    settings = {"do_sample": False, "max_new_tokens": 30, "eos_token_id": eos, "pad_token_id": 0}
    inputs = {"inputs": ROWS, "attention_mask": MASK}
    equal(*pair, inputs, stopping_criteria=[EverySeventh()], **settings)


def test_acceptance_is_counted_for_each_row(pair):
    settings = {"do_sample": True, "max_new_tokens": 25, "return_dict_in_generate": True}
    output = decoded(pair, ROWS, attention_mask=MASK, **settings, num_assistant_tokens=3, seed=0)
    assert len(output.acceptance) == len(output.generations) == 3
    for row, generation in zip(output.acceptance, output.generations, strict=True):
        assert generation.paths == sequence(3).paths
        assert row == generation.acceptance
        assert row.mean_length == generation.block_efficiency


def test_the_drafts_own_configuration_may_say_how_many_tokens(pair, monkeypatch):
    monkeypatch.setattr(pair[1].generation_config, "num_assistant_tokens", 2)
    for options, paths in (({}, 2), ({"num_assistant_tokens": 3}, 3), ({"topology": sequence(1)}, 1)):
        output = decoded(pair, PROMPT, max_new_tokens=4, return_dict_in_generate=True, **options)
        assert output.generations[0].paths == sequence(paths).paths


REFUSED = {"num_beams": 2, "num_beam_groups": 2, "constraints": [1], "force_words_ids": [[5]]}
REFUSED |= {"penalty_alpha": 0.6, "dola_layers": "high", "diversity_penalty": 0.5, "low_memory": True}
REFUSED |= {"use_mtp": True, "is_assistant": True, "speculation_type": "eagle", "assistant_early_exit": 1}
REFUSED |= {"assistant_ensemble_weight": 0.5, "assistant_confidence_threshold": 0.7}
REFUSED |= {"num_assistant_tokens_schedule": "heuristic", "max_matching_ngram_size": 3}
REFUSED |= {"assistant_lookbehind": 5, "target_lookbehind": 5, "output_attentions": True}
REFUSED |= {"output_hidden_states": True, "use_cache": False, "cache_implementation": "static"}
REFUSED |= {"cache_config": {"nbits": 4}, "max_cache_len": 64, "prefill_chunk_size": 4}
REFUSED |= {"compile_config": CompileConfig(), "guidance_scale": 1.5, "synced_gpus": True}
REFUSED |= {"method": "none", "seed": -1, "topology": "bush", "num_assistant_tokens": 0}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_effect_is_refused_by_name(pair, name):
    assert arguments.ONLY.keys() <= REFUSED.keys() | {"token_healing"}  # has a test of its own
    with pytest.raises(ValueError, match=name):
        decoded(pair, PROMPT, max_new_tokens=4, **{name: REFUSED[name]})


def test_a_prompt_that_would_be_changed_is_refused(talking):
    tokenizer = copy.deepcopy(talking[-1])
    tokenizer.bos_token = END  # transformers changes the prompt itself, and needs a tokenizer for that
    inputs = tokenizer("the cat", return_tensors="pt") | {"tokenizer": tokenizer, "token_healing": True}
    with pytest.raises(ValueError, match="token_healing"):
        decoded(talking, **inputs, max_new_tokens=4)


def test_time_ends_a_text(pair, monkeypatch):
    """The text stops at the first token after the time limit, as in transformers. Tokens that a round drafted
    beyond it are dropped."""
    settings = {"do_sample": False, "max_new_tokens": 30, "eos_token_id": None, "max_time": 5.0}
    ticks = itertools.count()
    monkeypatch.setattr(stopping_criteria.time, "time", lambda: float(next(ticks)))
    theirs = pair[0].generate(PROMPT, **settings)
    ticks = itertools.count()
    sequences = decoded(pair, PROMPT, **settings)
    assert torch.equal(sequences, theirs)
    assert PROMPT.shape[1] < sequences.shape[1] < PROMPT.shape[1] + 30


@pytest.mark.parametrize("name", ["min_length", "min_new_tokens"])
def test_a_text_goes_on_to_its_least_length(pair, name):
    ends = {"eos_token_id": [*range(VOCAB_SIZE // 2)], "pad_token_id": 0, "do_sample": False}
    sequences = equal(*pair, {"inputs": PROMPT}, **ends, max_new_tokens=16, **{name: 12})
    assert decoded(pair, PROMPT, **ends, max_new_tokens=16).shape[1] < sequences.shape[1]


def test_further_errors_name_their_argument(pair):
    target, draft = pair
    argument, other = cache_argument(target), tiny_model("llama", vocab_size=VOCAB_SIZE + 3)
    cache = target(PROMPT)[argument]
    for message, options in (
        ("attention_mask", {"inputs": ROWS, "attention_mask": MASK.flip(-1), "draft": draft}),
        ("assistant_model", {}),
        ("assistant_model and draft", {"assistant_model": draft, "draft": draft}),
        ("position_ids", {"draft": draft, "position_ids": torch.arange(6)[None] + 3}),
        ("inputs_embeds", {"inputs": None, "inputs_embeds": torch.zeros(1, 3, 32), "draft": draft}),
        ("num_assistant_tokens", {"draft": draft, "num_assistant_tokens": 3, "topology": "auto"}),
        (argument, {"inputs": PROMPT.repeat(1, 2), "draft": draft, argument: cache}),
        ("give tokenizer=", {"draft": other}),
    ):
        with pytest.raises(ValueError, match=message):
            target.generate(**{"inputs": PROMPT} | options, custom_generate=ours, max_new_tokens=4)


@pytest.mark.parametrize("changes", [{}, {"repetition_penalty": 1.1}], ids=["native", "processed"])
def test_prompt_lookup_drafts_from_the_text(pair, changes):
    target, _ = pair
    settings = {"do_sample": False, "max_new_tokens": 40, "eos_token_id": None} | changes
    own = {"prompt_lookup_num_tokens": 3, "custom_generate": ours, "return_dict_in_generate": True}
    output = target.generate(PROMPT, **settings, **own)
    assert torch.equal(output.sequences, target.generate(PROMPT, **settings))
    (row,) = output.acceptance
    assert row.num_drafted > 0
    assert len(row.rate_by_position) <= 3


def test_a_draft_that_is_padded_otherwise_needs_the_tokenizer_of_both(talking):
    target, _, tokenizer = talking
    draft = tiny_model("llama", vocab_size=len(tokenizer) + 20, eos_token_id=0)
    inputs = tokenizer("the cat", return_tensors="pt") | {"do_sample": False, "max_new_tokens": 10}
    call = partial(target.generate, **inputs, custom_generate=ours, draft=draft, tokenizer=tokenizer)
    for sequences in (call(), call(assistant_tokenizer=tokenizer)):
        assert torch.equal(sequences, target.generate(**inputs))


@pytest.mark.parametrize("do_sample", [False, True], ids=["greedy", "sampled"])
def test_a_draft_of_another_tokenizer_writes_the_targets_text(talking, do_sample):
    target, _, tokenizer = talking
    other = trained_tokenizer("byte fallback")
    draft = tiny_model("llama", vocab_size=len(other) + 5, eos_token_id=2)
    inputs = tokenizer("the cat", return_tensors="pt") | {"do_sample": do_sample, "max_new_tokens": 40}
    call = partial(target.generate, **inputs, custom_generate=ours, seed=1, return_dict_in_generate=True)
    plain = call(method="ar")
    tokenizers = {"tokenizer": tokenizer, "assistant_tokenizer": other}
    for _ in range(2):
        drafted = call(assistant_model=draft, **tokenizers)
        assert torch.equal(drafted.sequences, plain.sequences)
        assert any(round.nodes for round in drafted.generations[0].rounds)
    with pytest.raises(ValueError, match="assistant_tokenizer"):
        call(assistant_model=draft)


def test_pipelines_and_chats(talking):
    target, draft, tokenizer = talking
    pipe = pipeline("text-generation", model=target, tokenizer=tokenizer, device="cpu")
    settings = {"max_new_tokens": 10, "do_sample": False}
    for prompt in ("the cat", [{"role": "user", "content": "the dog"}], ["the cat", "once upon a time"]):
        theirs = pipe(prompt, **settings, batch_size=2)
        assert pipe(prompt, **settings, batch_size=2, custom_generate=ours, assistant_model=draft) == theirs


def test_other_callables_get_what_they_got(pair):
    def loop(model, input_ids, logits_processor, stopping_criteria, generation_config, **kwargs):
        return sorted(kwargs)

    call = partial(pair[0].generate, PROMPT, custom_generate=loop, max_new_tokens=4)
    assert "assistant_model" not in call(assistant_model=pair[1])


def test_a_model_is_wrapped_once_and_goes_when_it_goes(monkeypatch):
    modules = []
    wrap = wrapped.HFModel
    monkeypatch.setattr(wrapped, "HFModel", lambda module: modules.append(type(module)) or wrap(module))
    target, draft = models(num_hidden_layers=1)
    call = partial(target.generate, PROMPT, custom_generate=ours, max_new_tokens=4)
    assert call(assistant_model=draft, seed=1).tolist() == call(assistant_model=draft, seed=2).tolist()
    assert len(modules) == 2
    with torch.no_grad():
        target.lm_head.weight.neg_()
    assert call(assistant_model=draft, seed=1).tolist() == call(method="ar", seed=1).tolist()
    assert len(modules) == 3  # the changed target is wrapped again, but only once
    assert pickle.loads(pickle.dumps(target))._specdec_wrapped is None
    gone = weakref.ref(target)
    del target, call
    gc.collect()
    assert gone() is None


def test_what_comes_after_an_end_is_not_asked_for(pair):
    """A processor that can't continue after the end of a text need not do so."""

    def allowed(row, ids):
        assert not (ids[PROMPT.shape[1] :] == 2).any()
        return [2, 7, 8]

    settings = {"do_sample": True, "max_new_tokens": 12, "topology": specinfer(8)}
    for seed in range(5):
        decoded(pair, PROMPT, **settings, prefix_allowed_tokens_fn=allowed, seed=seed)
