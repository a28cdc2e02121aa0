"""Token ids to text, piece by piece."""

import pytest
from tokenizers_for_tests import END, byte_level_tokenizer

from specdec.text import TextStream, TokenTexts

TEXTS = ["the cat sat", "naïve 🙂🙃 日本語 ½", "tabs\tand\nlines ", "\u202eright to left\u202c", "🏳️‍🌈"]
TOKENIZER = byte_level_tokenizer()


class WithoutBackend:
    """The same tokenizer as one of transformers' slow ones shows itself: no Rust object behind it."""

    decode = TOKENIZER.decode
    convert_ids_to_tokens = TOKENIZER.convert_ids_to_tokens


@pytest.mark.parametrize("tokenizer", [TOKENIZER, WithoutBackend()], ids=["fast", "slow"])
@pytest.mark.parametrize("text", TEXTS)
def test_pieces_join_to_the_text_and_none_holds_half_a_character(tokenizer, text):
    stream = TextStream(tokenizer, TOKENIZER.encode("the mat "))
    pieces = [stream.push(token_id) for token_id in TOKENIZER.encode(text)]
    assert "".join(pieces) == text
    assert not any("\N{REPLACEMENT CHARACTER}" in piece for piece in pieces)
    assert stream.flush() == ""


def test_an_unfinished_character_is_shown_as_such_at_the_end():
    stream = TextStream(TOKENIZER)
    ids = TOKENIZER.encode("a🙂")
    assert [stream.push(token_id) for token_id in ids[:-1]] == ["a", "", "", ""]
    assert stream.flush() == "\N{REPLACEMENT CHARACTER}"
    assert stream.flush() == ""


def test_special_tokens_add_no_text():
    stream = TextStream(TOKENIZER)
    assert [stream.push(i) for i in TOKENIZER.encode(f"a{END}")] == ["a", ""]


def test_a_prompt_that_ends_inside_a_character_does_not_leak_into_the_text():
    stream = TextStream(TOKENIZER, TOKENIZER.encode("the 🙂")[:-1])
    assert stream.push(TOKENIZER.encode("cat")[0]).startswith("c")


def test_tokens_are_named_by_their_text_or_their_bytes():
    texts = TokenTexts(TOKENIZER)
    assert [texts[i] for i in TOKENIZER.encode("é the")] == ["<C3>", "<A9>", " the"]
    assert texts[0] == END
    assert texts[10_000] == "<10000>"


def test_without_a_tokenizer_there_is_no_text_and_tokens_are_numbers():
    stream = TextStream(None, [1, 2])
    assert (stream.push(3), stream.flush()) == ("", "")
    assert TokenTexts(None)[7] == "7"
