"""Tokenizers of GGUF files follow their vocabulary's rules for pieces, added tokens and ends of texts.
Unknown rules are refused."""

import random
from itertools import pairwise
from unicodedata import normalize

import numpy as np
import pytest
import torch
from tokenizers import decoders
from tokenizers.pre_tokenizers import ByteLevel
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.gpt2.tokenization_gpt2 import GPT2Tokenizer
from transformers.models.qwen2.tokenization_qwen2 import Qwen2Tokenizer

from research.audit.writing import write
from specdec.models.gguf.header import BrokenFileError, read_header
from specdec.models.gguf.pre_tokenizers import RULES
from specdec.models.gguf.tokenizer import ENDS, IGNORED, ends_of, tokenizer_of

TEXT = "I'LL we've aB 1234567 x =  5;//\n\n  e\u0301 日本a!\r\n ½о "
WORDS = {
    "gpt-2 phi-2 gigachat a.x-4.0 mellum jais trillion granite-docling exaone4": (
        "I|'|LL| we|'ve| aB| 1234567| x| =| | 5|;//|\n\n | e|\u0301| 日本a|!|\r\n| ½|о| "
    ),
    "starcoder refact smollm codeshell exaone minerva-7b mellum2": (
        "I|'|LL| we|'ve| aB| |1|2|3|4|5|6|7| x| =|  |5|;//|\n\n | e|\u0301| 日本a|!|\r\n |½|о| "
    ),
    "falcon": (
        "I|'|LL| we|'|ve| aB| |123|456|7| x| |=| | |5|;//|\n\n | e|\u0301| 日本a|!|\r\n| "
        "\ufffd|\ufffd|\ufffd|\ufffd| "
    ),
    "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 dbrx smaug-bpe chatglm-bpe": (
        "I|'LL| we|'ve| aB| |123|456|7| x| =| | |5|;//\n\n| | e|\u0301| 日本a|!\r\n| |½|о| "
    ),
    "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2 ufakzeka": (
        "I|'LL| we|'ve| aB| |1|2|3|4|5|6|7| x| =| | |5|;//\n\n| | e|\u0301| 日本a|!\r\n| |½|о| "
    ),
    "laguna": "I|'LL| we|'ve| aB| |1|2|3|4|5|6|7| x| =| | |5|;//|\n\n| | e|\u0301| 日本a|!\r|\n| |½|о| ",
    "seed-coder": "I|'LL| we|'ve| aB| |1|2|3|4|5|6|7| x| =| | |5|;//|\n\n| | e|\u0301| 日本a|!|\r\n| |½|о| ",
    "tekken": "I|'LL| we|'ve| a|B| |1|2|3|4|5|6|7| x| =| | |5|;//\n\n| | e\u0301| 日本a|!\r\n| |½|о| ",
    "gpt-4o llama4 kanana2 talkie minimax-m2": (
        "I'LL| we've| a|B| |123|456|7| x| =| | |5|;//\n\n| | e\u0301| 日本a|!\r\n| |½|о| "
    ),
    "minicpm5": "I|'LL| we|'ve| aB| |123|456|7| x| =|  |5|;//\n\n| | e|\u0301| 日本a|!\r\n| |½|о| ",
    "deepseek-coder": (
        "I|'|LL| we|'|ve| aB| |1|2|3|4|5|6|7| x| =  |5|;//|\n|\n| | e|\u0301| |日本|a|!|\r|\n| |½|о| "
    ),
    "deepseek-llm": (
        "I|'|LL| we|'|ve| aB| |1|2|3|4|5|6|7| x| =|  |5|;//|\n|\n| | e|\u0301 |日本|a|!|\r|\n| |½|о| "
    ),
    "poro-chat bloom gpt3-finnish": (
        "I'LL| we've| aB| 1234567| x| =| | 5;//|\n\n | e\u0301| 日本a|!\r\n| ½о| "
    ),
    "viking": "I'LL| we've| aB| |1|2|3|4|5|6|7| x| =| | |5|;//|\n\n | e\u0301| 日本a|!\r\n| |½|о| ",
}
"""The words of `TEXT` under each rule, checked by hand against patterns of published tokenizer.json files."""
WORDS_OF = {name: words.split("|") for names, words in WORDS.items() for name in names.split()}
NFC = ("qwen2", "deepseek-r1-qwen")
BEGIN = ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken")
WHOLE = (*BEGIN, "minicpm5")
BYTES = sorted(ByteLevel.alphabet())
PAIRS = [(a, b) for a in "abcde12" for b in "fghij34"]
TOKENS = ["<|end|>", "<|turn|>", *BYTES, *(a + b for a, b in PAIRS), "\u0120whole"]
MERGES = [f"{a} {b}" for a, b in PAIRS]
MARK = "\u2581"


def file_of(path, tokens=TOKENS, merges=MERGES, **keys):
    """The header of a small file with random weights. keys: the keys below tokenizer.ggml."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = LlamaConfig(
        vocab_size=len(tokens), max_position_embeddings=64, tie_word_embeddings=True, **sizes
    )
    full = {f"tokenizer.ggml.{key}": value for key, value in keys.items()}
    return read_header(write(path / "m.gguf", LlamaForCausalLM(config), tokens, merges, keys=full))


def ids_of(header, text, **options):
    return tokenizer_of(header)(text, **options)["input_ids"]


def test_every_rule_has_its_words():
    assert WORDS_OF.keys() == RULES.keys()
    assert all("".join(words) == TEXT for name, words in WORDS_OF.items() if name != "falcon")


@pytest.mark.parametrize("name", RULES)
def test_a_file_of_each_type_cuts_normalises_begins_and_merges_as_its_vocabulary(tmp_path, name):
    tokenizer, spelled = tokenizer_of(file_of(tmp_path, pre=name, add_bos_token=None)), decoders.ByteLevel()
    words = tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str(TEXT)
    assert [spelled.decode([word]) for word, _ in words] == WORDS_OF[name]
    text = tokenizer.decode(tokenizer(TEXT, add_special_tokens=False)["input_ids"])
    assert text == (normalize("NFC", TEXT) if name in NFC else TEXT)
    have = tokenizer("af whole")["input_ids"]
    last_word = [TOKENS.index("\u0120whole")] if name in WHOLE else [TOKENS.index(c) for c in "\u0120whole"]
    assert have == [0] * (name in BEGIN) + [TOKENS.index("af"), *last_word]


@pytest.mark.parametrize(("name", "kind"), [("qwen2", Qwen2Tokenizer), ("gpt-2", GPT2Tokenizer)])
def test_tokens_are_those_of_the_class_that_transformers_has_for_a_vocabulary(tmp_path, name, kind):
    vocabulary = {token: i for i, token in enumerate(TOKENS)}
    theirs = kind(vocab=vocabulary, merges=PAIRS)._tokenizer
    ours = tokenizer_of(file_of(tmp_path, pre=name)).backend_tokenizer
    draw = random.Random(0)
    for _ in range(200):
        text = "".join(draw.choices("afbg13 24'tsAB\n\r.;é\u0301日½", k=40))
        want = theirs.encode(text, add_special_tokens=False).ids
        assert ours.encode(text, add_special_tokens=False).ids == want


@pytest.mark.parametrize("name", ["gpt-2", "llama-bpe"])
@pytest.mark.parametrize("begins", [None, False, True])
@pytest.mark.parametrize("ends", [None, False, True])
def test_keys_say_which_tokens_are_added(tmp_path, name, begins, ends):
    header = file_of(tmp_path, pre=name, add_bos_token=begins, add_eos_token=ends, eos_token_id=1)
    begin = [0] * (begins if begins is not None else name == "llama-bpe")
    assert ids_of(header, "a") == [*begin, TOKENS.index("a"), *[1] * bool(ends)]
    assert ids_of(header, "a", add_special_tokens=False) == [TOKENS.index("a")]


def sentencepiece(draw):
    """Tokens with random scores: control tokens, bytes, and random pieces of three letters and spaces."""
    letters = [MARK, *"abc"]
    pieces = sorted({"".join(draw.choices(letters, k=k)) for k in (2, 3, 4) for _ in range(20)})
    tokens = ["<unk>", "<s>", "</s>", *[f"<0x{byte:02X}>" for byte in range(256)], *letters, *pieces]
    types = [2, 3, 3, *[6] * 256, *[1] * (len(letters) + len(pieces))]
    scores = [-float(rank) for rank in draw.sample(range(len(tokens)), len(tokens))]
    return tokens, {"token_type": types, "scores": scores}


def merged(text, tokens, scores):
    """SentencePiece's own loop: of all neighbours that make a token, the best score merges first."""
    ids = {token: i for i, token in enumerate(tokens)}
    parts = list(text.replace(" ", MARK))
    while True:
        pairs = [(-scores[ids[a + b]], i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in ids]
        if not pairs:
            break
        place = min(pairs)[1]
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    lists = ([ids[part]] if part in ids else [3 + byte for byte in part.encode()] for part in parts)
    return [token_id for each in lists for token_id in each]


@pytest.mark.parametrize("prefix", [None, True, False])
@pytest.mark.parametrize("squeezed", [None, True])
def test_sentencepiece_merges_by_score_behind_the_space_that_the_file_asks_for(tmp_path, prefix, squeezed):
    draw = random.Random(3)
    tokens, keys = sentencepiece(draw)
    spaces = {"add_space_prefix": prefix, "remove_extra_whitespaces": squeezed, "add_bos_token": None}
    header = file_of(tmp_path, tokens, (), **keys, **spaces, bos_token_id=1, eos_token_id=2)
    for _ in range(200):
        text = "".join(draw.choices("aabbcc  ü", k=draw.randrange(1, 30)))
        read = " ".join(filter(None, text.split(" "))) if squeezed else text
        want = merged(" " * (prefix is not False and bool(read)) + read, tokens, keys["scores"])
        assert ids_of(header, text) == [1, *want]
        assert tokenizer_of(header).decode(want) == read


def test_gemmas_vocabulary_merges_by_position_and_adds_no_space(tmp_path):
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", MARK, "a", "b", "c", "bc", "ab"]
    keys = {"token_type": [3, 3, 3, 2, *[1] * 6], "scores": [0.0] * 9 + [5.0]}
    header = file_of(tmp_path, tokens, (), **keys, bos_token_id=2, eos_token_id=1, unknown_token_id=3)
    assert ids_of(header, "abc") == [4, 9, 7]  # with a Llama model: a space, and the better score
    header.keys["general.architecture"] = "gemma2"
    assert ids_of(header, "abc") == [5, 8]


def test_tokens_of_the_file_are_found_whole_in_a_text(tmp_path):
    tokens = [*TOKENS, "<think>"]
    types = [3, 3, *[1] * (len(TOKENS) - 2), 4]
    header = file_of(tmp_path, tokens, token_type=types)
    think = len(TOKENS)
    assert ids_of(header, "a<think>b<|turn|>") == [tokens.index("a"), think, tokens.index("b"), 1]
    tokenizer = tokenizer_of(header)
    assert tokenizer.decode([think, 1], skip_special_tokens=True) == "<think>"


def test_all_tokens_that_end_a_text_are_collected(tmp_path):
    names = [*sorted(ENDS - {"<|return|>", "<|call|>"}), "<|other|>"]
    tokens = [*names, *BYTES]
    types = [3] * len(names) + [1] * len(BYTES)
    keys = {"token_type": types, "eos_token_id": 0}
    keys |= {"eot_token_id": len(names) + 1, "eom_token_id": len(names) + 2}
    every = [*range(len(names) - 1), len(names) + 1, len(names) + 2]
    assert ends_of(file_of(tmp_path, tokens, [], **keys)) == every
    types[1] = 1  # an ordinary token of that name ends no text
    assert ends_of(file_of(tmp_path, tokens, [], **keys)) == [0, *every[2:]]
    keys["eos_token_ids"] = [1, 5]
    assert ends_of(file_of(tmp_path, tokens, [], **keys)) == every


def test_a_message_of_several_does_not_end_a_text(tmp_path):
    tokens = ["<|return|>", "<|call|>", "<|end|>", *BYTES]
    keys = {"token_type": [3, 3, 3, *[1] * len(BYTES)], "eos_token_id": 0}
    assert ends_of(file_of(tmp_path, tokens, [], **keys)) == [0, 1]
    assert ends_of(file_of(tmp_path, ["<|x|>", *tokens[1:]], [], **keys)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("pre", "whitespace", "tokenizer.ggml.pre = 'whitespace', a rule .* not known here"),
        ("pre", None, "does not say how its vocabulary cuts words"),
        ("model", "t5", "tokenizer.ggml.model = 't5'; supported: gpt2, llama and gemma4"),
        ("add_sep_token", True, "tokenizer.ggml.add_sep_token = True, which is not supported"),
        ("normalizer.lowercase", True, "tokenizer.ggml.normalizer.lowercase = True"),
        ("add_space_prefix", True, "add_space_prefix = True"),
        ("something_new", 3, "tokenizer.ggml.something_new = 3, which is not supported"),
        ("eos_token_id", 9999, "eos_token_id = 9999; its ids are 0 to"),
        ("scores", [0.0], "1 entries at tokenizer.ggml.scores"),
        ("merges", ["ab"], "the merge 'ab', which has no two parts"),
        ("tokens", ["a", "a", *TOKENS[2:]], "the token 'a' twice"),
    ],
)
def test_a_tokenizer_that_is_not_read_is_refused_by_key_and_value(tmp_path, key, value, message):
    header = file_of(tmp_path)
    tokenizer_of(header)
    changed = np.array(value) if isinstance(value, list) and not isinstance(value[0], str) else value
    header.keys[f"tokenizer.ggml.{key}"] = changed
    if value is None:
        del header.keys[f"tokenizer.ggml.{key}"]
    with pytest.raises(BrokenFileError, match=message):
        tokenizer_of(header)


def test_ids_of_tokens_without_a_use_are_ignored(tmp_path):
    header = file_of(tmp_path)
    want = ids_of(header, TEXT)
    header.keys.update({f"tokenizer.ggml.{key}": 3 for key in IGNORED})
    header.keys["tokenizer.ggml.add_sep_token"] = False
    assert ids_of(header, TEXT) == want


def test_a_text_without_its_beginning_is_refused(tmp_path):
    header = file_of(tmp_path, pre="llama-bpe", add_bos_token=None)
    del header.keys["tokenizer.ggml.bos_token_id"]
    with pytest.raises(BrokenFileError, match=r"add_bos_token.*no bos_token_id"):
        tokenizer_of(header)


def test_control_tokens_of_phi_3_swallow_white_space(tmp_path):
    tokens, keys = sentencepiece(random.Random(0))
    tokens[-1], keys["token_type"][-1] = "<|user|>", 3
    header = file_of(tmp_path, tokens, (), **keys, bos_token_id=1, eos_token_id=2)
    assert ids_of(header, "<|user|>\n a") != ids_of(header, "<|user|>a")
    header.keys["general.architecture"] = "phi3"
    assert ids_of(header, "<|user|>\n a") == ids_of(header, "<|user|>a")
