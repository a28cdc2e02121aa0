"""The codec laboratory: the shown bits are those of the codec, and Bob decodes Alice's tokens."""

import json
import math

import pytest

from components.codecs import panel as lab
from components.codecs import record_sentences
from specdec import channel, theory
from specdec.channel.codes import read_elias_gamma

SENTENCES = lab.recorded()["sentences"]
NUMBERS = range(len(SENTENCES))
GREEDY = {"method": "greedy_rejection"}


@pytest.fixture(params=NUMBERS, scope="module")
def case(request):
    """A recorded sentence and its view."""
    return SENTENCES[request.param], lab.sent({"sentence": request.param, "seed": None})


def test_the_record_is_small_and_has_both_codecs():
    assert record_sentences.RECORDED.stat().st_size < 300_000
    assert {sentence["method"] for sentence in SENTENCES} == set(channel.METHODS)


def test_recorded_laws_are_distributions_and_alice_never_chooses_the_other_tokens(case):
    for row in case[0]["positions"]:
        assert len(row["texts"]) == len(row["p"]) == len(row["q"])
        assert sum(row["p"]) == pytest.approx(1, abs=1e-8)
        assert sum(row["q"]) == pytest.approx(1, abs=1e-8)
        assert (row["texts"][-1], row["p"][-1]) == (record_sentences.OTHER, 0)


def test_bobs_token_is_alices_and_the_recorded_one(case):
    """Bob gets only the bits, q and the seed."""
    sentence, view = case
    decode, seed = channel.DECODERS[sentence["method"]], lab.recorded()["seed"]
    for n, (token, row) in enumerate(zip(view["tokens"], sentence["positions"], strict=True)):
        index = read_elias_gamma(token["bits"], 0)[0] - 1
        assert decode(index, row["q"], seed, n) == token["id"] == sentence["sent"][n]
        assert token["recorded"]
        assert token["proposals"][: index + 1][-1] == token["text"] or index >= len(token["proposals"])


def test_bits_are_those_of_the_codec(case):
    sentence, view = case
    kls = [float(theory.kl_divergence(row["p"], row["q"])) for row in sentence["positions"]]
    distribution = channel.zipf_distribution(sum(kls) / len(kls))
    indices = [token["index"] for token in view["tokens"]]
    bits = [float(row[1]) for row in view["totals"]]
    assert bits[0] == pytest.approx(sum(kls), abs=0.05)
    assert bits[4] == pytest.approx(-sum(math.log2(distribution[index]) for index in indices), abs=0.05)
    assert bits[5] == len(channel.encode_elias_gamma(indices))
    assert bits[6] == 8 * len(channel.encode_indices(indices, distribution))
    assert float(view["plot"]["table"]["rows"][-1][1]) == bits[5]


def test_recorded_entropies_are_those_of_the_index_laws(case):
    """The first five positions. Simulated ones must agree within their error."""
    sentence, view = case
    for row, token in list(zip(sentence["positions"], view["tokens"], strict=True))[:5]:
        both = channel.index_distributions(row["p"], row["q"], sentence["method"])
        assert token["entropy_with"] == pytest.approx(both.entropy_with, abs=1e-3)
        assert token["entropy_without"] == pytest.approx(both.entropy_without, abs=0.02)
        assert both.kl <= both.entropy_with + 1e-6


def test_another_seed_sends_other_tokens_that_arrive_all_the_same():
    view = lab.sent({"sentence": 0, "seed": 123})
    decode = channel.DECODERS[view["method"]]
    for n, (token, row) in enumerate(zip(view["tokens"], SENTENCES[0]["positions"], strict=True)):
        assert decode(token["index"], row["q"], 123, n) == token["id"]
    assert not all(token["recorded"] for token in view["tokens"])


def test_views_are_plain_data():
    for view in (
        lab.sent({"sentence": 0, "seed": None}),
        lab.distributions(GREEDY | {"p": [1, 2], "q": [2, 1]}),
        lab.tunstall({"weights": [2, 1], "k": 3, "word": "aab"}),
    ):
        assert json.loads(json.dumps(view, allow_nan=False)) == view
        assert view["plot"]["sentence"].endswith(".")


@pytest.mark.parametrize("method", channel.METHODS)
@pytest.mark.parametrize("preset", lab.PRESETS, ids=lambda preset: preset[0])
def test_presets_show_the_laws_of_the_theory(method, preset):
    _, names, p, q = preset
    view = lab.distributions({"method": method, "p": p, "q": q})
    both = channel.index_distributions(view["p"], view["q"], method)
    rows = view["plot"]["table"]["rows"]
    assert float(rows[0][1]) == pytest.approx(both.with_replacement[0], abs=1e-4)
    assert float(rows[0][2]) == pytest.approx(both.without_replacement[0], abs=1e-4)
    assert len(names) == len(p) == len(q)
    assert view["below"] == ("below D_KL. This contradicts no theorem" in view["plot"]["sentence"])


@pytest.mark.parametrize(
    ("weights", "k", "word"),
    [([0.7, 0.2, 0.1], 7, "aabacaaaab"), ([1, 1], 0, "ab"), ([5, 1, 1, 1, 1, 1, 1, 1], 64, "hgfedcbaaaaa")],
)
def test_a_word_comes_back_from_its_phrases(weights, k, word):
    view = lab.tunstall({"weights": weights, "k": k, "word": word})
    assert view["decoded"] == word
    assert "".join(phrase for phrase, _ in view["phrases"]).startswith(word)
    code = channel.TunstallCode([weight / sum(weights) for weight in weights], k)
    assert view["header"] + "".join(bits for _, bits in view["phrases"]) == code.encode(
        [ord(letter) - ord("a") for letter in word]
    )
    book = dict(view["codebook"]["rows"])
    assert all(book[phrase] == bits for phrase, bits in view["phrases"] if phrase in book)
    assert f"{code.rate:.3f}" in view["sentence"]
