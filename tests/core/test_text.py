"""Token ids become text piece by piece: nothing raises, and the joined pieces equal the text of all ids."""

import itertools
import json

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import CTRLTokenizer, PreTrainedTokenizerFast

import specdec
from specdec.models.markov import MarkovModel
from specdec.text import TextStream, TokenTexts
from tests.helpers.texts import endless
from tests.helpers.tokenizers import END, TRAINED, byte_level_tokenizer, bytes_in_python, trained_tokenizer

PIECES = ["a", "é", "日", ".", ",", "'", "n", "t", " ", "  ", "�", "the", "cat", "n't", "'s", "'re", "ve"]


def extended(kind):
    """A trained tokenizer with added tokens: pieces that decoders treat in their own ways, and a space."""
    tokenizer = trained_tokenizer(kind)
    tokenizer.add_tokens([*PIECES, "<user>", AddedToken(" two words ", lstrip=True), "🙂"])
    return tokenizer


def cleaned_up():
    """A tokenizer like BERT's, whose spaces before punctuation transformers removes, and not the decoder."""
    tokens = {
        token: i for i, token in enumerate(["[UNK]", *PIECES, "##ing", "##s", "##", "##.", "m", "##ve"])
    }
    words = Tokenizer(models.WordPiece(tokens, unk_token="[UNK]"))
    words.decoder = decoders.WordPiece(cleanup=False)
    return PreTrainedTokenizerFast(tokenizer_object=words, clean_up_tokenization_spaces=True)


def without_decoder():
    tokenizer = extended("metaspace")
    tokenizer.backend_tokenizer.decoder = decoders.Fuse()
    return tokenizer


def words_in_python(folder):
    """A tokenizer written in Python whose tokens may be incomplete words: "hel@@" and "lo" are "hello"."""
    tokens = ("<unk>", "the", "c@@", "at", "a@@", "x", "日@@", "n't")
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\nt h\n")
    return CTRLTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))


TEXTS = ["the cat sat", "naïve 🙂🙃 日本語 ½", "tabs\tand\nlines ", "\u202eright to left\u202c", "🏳️‍🌈"]
TOKENIZER = byte_level_tokenizer()
FALLBACK = trained_tokenizer("byte fallback")
CHECKS = {"derandomize": True, "deadline": None, "max_examples": 60}
CHECKS["suppress_health_check"] = [HealthCheck.function_scoped_fixture]


class WithoutBackend:
    """The same tokenizer in the form of transformers' slow tokenizers, without a Rust object."""

    decode = TOKENIZER.decode
    convert_ids_to_tokens = TOKENIZER.convert_ids_to_tokens


KINDS = {kind: lambda _, kind=kind: extended(kind) for kind in TRAINED} | {
    "cleaned up": lambda _: cleaned_up(),
    "without a decoder": lambda _: without_decoder(),
    "bytes in Python": lambda _: bytes_in_python(),
    "words in Python": words_in_python,
}
kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    return {kind: make(tmp_path_factory.mktemp("vocabulary")) for kind, make in KINDS.items()}


def pieces(tokenizer, prompt, ids):
    stream = TextStream(tokenizer, prompt)
    return [*map(stream.push, ids), stream.flush()]


def added_text(tokenizer, prompt, ids):
    """The text of all ids after the text of the prompt, or after the common beginning of both."""
    prefix, text = (tokenizer.decode(some, skip_special_tokens=True) for some in (prompt, [*prompt, *ids]))
    while not text.startswith(prefix):
        prefix = prefix[:-1]
    return text.removeprefix(prefix)


@st.composite
def texts(draw, size):
    """A prompt and new ids. They often have few different tokens, which makes long runs, and bytes that form
    no characters."""
    few = st.sampled_from(draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=6)))
    ids = draw(st.sampled_from([few, st.integers(0, size - 1)]))
    return draw(st.lists(ids, max_size=12)), draw(st.lists(ids, max_size=60))


@kinds
@settings(**CHECKS)
@given(data=st.data())
def test_whatever_the_tokens_the_pieces_join_to_the_whole_text(tokenizers, kind, data):
    tokenizer = tokenizers[kind]
    prompt, ids = data.draw(texts(len(tokenizer)))
    assert "".join(pieces(tokenizer, prompt, ids)) == added_text(tokenizer, prompt, ids)


@kinds
def test_long_texts_of_few_tokens_join_too_and_cost_the_same_for_each_token(tokenizers, kind, monkeypatch):
    """Control: decoding the whole text at each token would decode 250 tokens per token."""
    tokenizer, decoded = tokenizers[kind], []
    decode, generator = tokenizer.decode, torch.Generator().manual_seed(0)
    for count in (1, 2, 5, 30):
        few = torch.randint(len(tokenizer), (count,), generator=generator)
        ids = few[torch.randint(count, (500,), generator=generator)].tolist()
        with monkeypatch.context() as patched:
            patched.setattr(tokenizer, "decode", lambda i, **k: decoded.append(len(i)) or decode(i, **k))
            joined = "".join(pieces(tokenizer, ids[:3], ids[3:]))
        assert joined == added_text(tokenizer, ids[:3], ids[3:])
    # "bytes in Python" decodes more: bytes that form no character yet have no text of their own
    assert sum(decoded) < 80 * 2000 or kind == "bytes in Python"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "words in Python"])
def test_ids_without_a_token_add_no_text(tokenizers, kind):
    tokenizer = tokenizers[kind]
    beyond, ids = len(tokenizer) + 300, [len(tokenizer) // 2, len(tokenizer) // 3] * 3
    parts = pieces(tokenizer, [beyond, *ids, beyond], [beyond, *ids, beyond, *ids])
    assert "".join(parts) == added_text(tokenizer, ids, ids * 2)
    assert TokenTexts(tokenizer)[beyond] == f"<{beyond}>"


def test_bytes_that_fit_no_character_end_no_run():
    """The first token alone is a new line, but with the following ones it is two replacement characters."""
    ids = FALLBACK.convert_tokens_to_ids(["<0x0A>", "<0xC3>", "a", "<0xC3>", "<0xA9>", "b", "<0x41>"])
    assert pieces(FALLBACK, [], ids) == ["", "", "\ufffd\ufffda", "", "", "éb", "", "A"]
    assert [TokenTexts(FALLBACK)[i] for i in ids[:2]] == ["\n", "<C3>"]


def test_a_random_model_with_any_tokenizer_ends_its_text(tokenizers):
    for tokenizer in tokenizers.values():
        generator = torch.Generator().manual_seed(1)
        table = torch.rand(len(tokenizer), len(tokenizer), generator=generator, dtype=torch.float64) ** 4
        model = MarkovModel(table / table.sum(-1, keepdim=True))
        pair = endless(specdec.ModelPair(model, model, tokenizer))
        g = specdec.generate(pair, [2, 1], method="gsd", max_new_tokens=60, seed=0, detail=True)
        assert len(g.token_ids) == 60
        assert g.text == added_text(tokenizer, [2, 1], g.token_ids)
        assert type(g).from_json(g.to_json()) == g


@pytest.mark.parametrize("tokenizer", [TOKENIZER, WithoutBackend()], ids=["fast", "slow"])
@pytest.mark.parametrize("text", TEXTS)
def test_pieces_join_to_the_text_and_none_holds_half_a_character(tokenizer, text):
    parts = pieces(tokenizer, TOKENIZER.encode("the mat "), TOKENIZER.encode(text))
    assert "".join(parts) == text
    assert not any("\N{REPLACEMENT CHARACTER}" in piece for piece in parts)
    assert parts[-1] == ""


def test_an_unfinished_character_is_shown_as_such_at_the_end():
    stream = TextStream(TOKENIZER)
    ids = TOKENIZER.encode("a🙂")
    assert [stream.push(token_id) for token_id in ids[:-1]] == ["a", "", "", ""]
    assert [stream.flush(), stream.flush()] == ["\N{REPLACEMENT CHARACTER}", ""]


def test_tokens_are_named_by_their_text_or_their_bytes_and_without_a_tokenizer_by_numbers():
    texts = TokenTexts(TOKENIZER)
    assert [texts[i] for i in TOKENIZER.encode("é the")] == ["<C3>", "<A9>", " the"]
    assert (texts[0], texts[10_000], TokenTexts(None)[7]) == (END, "<10000>", "7")
    assert pieces(None, [1, 2], [3]) == ["", ""]


def test_a_decoder_that_panics_raises_nothing():
    """Rust's panics are not instances of `Exception`. This decoder panics at a text of one space."""
    tokenizer = extended("byte fallback")
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 1)]
    tokenizer.backend_tokenizer.decoder = decoders.Sequence(steps)
    space, letter = tokenizer.convert_tokens_to_ids(["▁", "a"])
    with pytest.raises(BaseException, match="slice index") as raised:
        tokenizer.decode([space])
    assert not isinstance(raised.value, Exception)
    for prompt, ids in itertools.product(([], [letter], [space, space]), repeat=2):
        parts = pieces(tokenizer, prompt, [space, *ids, space, letter])
        assert all(isinstance(piece, str) for piece in parts)
    assert isinstance(TokenTexts(tokenizer)[space], str)


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_a_program_is_not_held_back(ending, monkeypatch):
    tokenizer = byte_level_tokenizer()
    stream = TextStream(tokenizer, [5])

    def ends(*_, **__):
        raise ending

    monkeypatch.setattr(tokenizer, "decode", ends)
    with pytest.raises(ending):
        stream.push(7)
