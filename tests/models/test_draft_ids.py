"""A draft of only some ids: these have the same logits, no others are drafted, ERSD's text stays the same.

`test_partial.py` tests the distribution of the other rules with such a draft.
"""

from __future__ import annotations

import pickle

import pytest
import torch

import specdec
from specdec.models import packed_decoder
from specdec.models.gguf.fields import fields
from specdec.models.kernels.layout import LANES, QUANTISED
from specdec.models.kernels.quantised import blocks_of
from specdec.models.packed_file import PackedMatrices
from specdec.models.partial_head import chosen_ids, ends_of
from specdec.topology import Topology
from tests.helpers.file_blocks import random_blocks
from tests.helpers.texts import endless, ersd_as_plain
from tests.models.test_gguf import IDS, own_cache  # noqa: F401
from tests.models.test_packed import any_type_is_written, check_texts, file, scored  # noqa: F401

TREE = Topology([(0,), (1,), (0, 0)])
SOME = [0, 3, 4, 17, 40, 64, 65, 99, 101, 200]


@pytest.mark.parametrize("kind", [*QUANTISED, "float32"])
def test_chosen_outputs_keep_their_numbers(kind):
    blocks = torch.randn(6, 8, LANES, 1)
    if kind != "float32":
        blocks = torch.from_numpy(blocks_of(fields(random_blocks(kind, 90, 512), kind), kind))
    full = PackedMatrices({"a": blocks}, {"a": kind})
    ids = torch.tensor([0, 5, 16, 17, 33, 34, 35, 50, 60, 61, 62, 63, 64, 65, 66, 80, 89])
    some = full.with_rows("a", ids)
    assert len(some.tensors["a"]) == 2
    assert torch.equal(some.values("a")[: len(ids)], full.values("a")[ids])


@pytest.fixture(params=["packed", "float32"])
def paths(request, tmp_path):
    draft = file(tmp_path / "draft.gguf", num_hidden_layers=1)
    return (file(tmp_path / "model.gguf"), draft), {"dtype": request.param}


def test_the_draft_s_logits_are_those_of_all_ids_and_no_others(paths):
    files, options = paths
    full = specdec.load_pair(*files, **options).draft
    some = specdec.load_pair(*files, **options, draft_ids=SOME).draft
    assert some.vocab_size == full.vocab_size
    have, want = (scored(model) for model in (some, full))
    assert torch.equal(have[:, SOME], want[:, SOME])
    assert have.isfinite().sum() == len(SOME) * len(have)


def test_a_number_of_ids_is_the_first_ones_and_the_ends(paths):
    assert chosen_ids(3, 50, [40, 60]).tolist() == [0, 1, 2, 40]
    files, options = paths
    draft = specdec.load_pair(*files, **options, draft_ids=20).draft
    ids = scored(draft)[0].isfinite().nonzero()[:, 0]
    assert ids.tolist() == sorted({*range(20), *ends_of(draft)})


def test_ersd_keeps_the_text_of_plain_decoding(paths):
    files, options = paths
    pair = endless(specdec.load_pair(*files, **options, draft_ids=SOME))
    runs = ersd_as_plain(pair, IDS[:5], [TREE], (1, 2, 3), max_new_tokens=20)
    drafted = {node.token_id for run in runs for round in run.rounds for node in round.nodes}
    assert set() < drafted <= {*SOME}


def chances(path):
    """Probabilities [tokens of IDS] of the likeliest of the first 32 tokens among these."""
    logits = scored(specdec.load_pair(path).target)
    return logits[:, :32].softmax(-1).amax(-1)


@pytest.fixture
def in_parts(monkeypatch, tmp_path):
    """Files of a pair whose draft scores its first 32 tokens first, and half of the time all others too."""
    files = file(tmp_path / "model.gguf"), file(tmp_path / "draft.gguf", num_hidden_layers=1)
    monkeypatch.setattr(packed_decoder, "FIRST", 32)
    ordered = chances(files[1]).sort().values
    between = ordered[len(ordered) // 2 - 1 :][:2].mean().item()
    monkeypatch.setattr(packed_decoder, "SURE", between)
    return files


def test_other_tokens_are_scored_only_where_no_frequent_one_stands_out(in_parts):
    target = specdec.load_pair(*in_parts).target  # a target scores all tokens
    assert not isinstance(target.decoder, packed_decoder.FrequentFirst)
    want = scored(specdec.load_pair(in_parts[1]).target)
    draft = specdec.load_pair(*in_parts).draft
    assert isinstance(pickle.loads(pickle.dumps(draft)).decoder, packed_decoder.FrequentFirst)
    have = scored(draft)
    assert torch.equal(have[:, :32], want[:, :32])
    missing = have[:, 32:].isneginf().all(-1)
    assert missing.tolist() == (chances(in_parts[1]) > packed_decoder.SURE).tolist()
    assert 0 < missing.sum() < len(missing)
    assert torch.equal(have[~missing], want[~missing])
    alone = torch.cat([scored(draft, IDS[: n + 2])[n:] for n in range(len(have))])
    assert torch.equal(alone, have)


def test_ersd_keeps_the_text_where_frequent_tokens_are_scored_first(in_parts):
    pair = endless(specdec.load_pair(*in_parts))
    ersd_as_plain(pair, IDS[:5], [TREE], (1, 2, 3), max_new_tokens=20)


def test_an_ordinary_folder_may_have_few_ids():
    pair = specdec.load_pair("stories", draft_ids=800)
    assert pair.draft.decoder.scored_ids <= 801
    [run] = ersd_as_plain(pair, "Once upon a time", [TREE], [3], max_new_tokens=40)
    assert run.block_efficiency > 1.2


@pytest.mark.parametrize("draft_ids", [0, 1, 10**9, [], [5], [5, -1], [5, 10**9], "many", 1.5])
def test_mistakes_are_named(draft_ids):
    with pytest.raises(ValueError, match="draft_ids"):
        specdec.load_pair("stories", draft_ids=draft_ids)


def test_a_draft_with_another_tokenizer_has_no_ids_of_the_target(tmp_path):
    with pytest.raises(ValueError, match=r"draft_ids.*tokenizer"):
        specdec.load_pair(file(tmp_path / "model.gguf"), "stories", draft_ids=100)
