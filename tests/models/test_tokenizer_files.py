"""A folder's tokenizer.json is used, and not the tokenizer class that transformers takes for the folder."""

import json

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import specdec
from specdec.models.tokenizer_files import same_tokenizers
from tests.helpers.tiny_checkpoints import save_checkpoint
from tests.helpers.tokenizers import byte_level_tokenizer

DIGITS = r"\p{N}{1,3}"
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
TEXT = "in 2023 12345, I'll  say\n\nÉe\u0301 45"
FILES = {
    "digits": (DIGITS, None, False),
    "qwen2": (QWEN2, "NFC", False),
    "qwen2 without NFC": (QWEN2, None, False),
    "words": (r"\s?\S+", None, False),
    "beginning": (QWEN2, "NFC", True),
}
"""Rules of a tokenizer.json: the pattern, the normaliser, and whether a text begins with a token."""
CLASSES = [
    *("Qwen2Tokenizer", "Qwen2TokenizerFast", "GPT2Tokenizer", "GPTNeoXTokenizer", "CohereTokenizer"),
    *("PreTrainedTokenizerFast", "TokenizersBackend", None),
]
"""Classes that a folder declares."""


def own_tokenizer(pattern, normaliser, begins):
    own = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    own.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    own.normalizer = normalizers.NFC() if normaliser else None
    own.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False
    )
    own.train_from_iterator([TEXT] * 9, trainer)
    if begins:
        own.post_processor = processors.TemplateProcessing(
            single=["<|end|>", "$A"], special_tokens=[("<|end|>", 0)]
        )
    return own


def folder_of(path, own, model_type, **entries):
    ids = {"bos_token_id": 0, "eos_token_id": 0}
    save_checkpoint(path, model_type, vocab_size=own.get_vocab_size(), **ids)
    own.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>", **entries}))
    return path


@pytest.mark.parametrize(
    ("declared", "file"),
    [
        *((declared, "digits") for declared in CLASSES),
        *((CLASSES[0], file) for file in FILES if file != "digits"),
    ],
)
def test_the_file_wins_over_the_class(tmp_path, declared, file):
    own = own_tokenizer(*FILES[file])
    entries = {} if declared is None else {"tokenizer_class": declared}
    folder = folder_of(tmp_path, own, "llama" if file == "digits" else "qwen3", **entries)
    pair = specdec.load_pair(folder)
    assert pair.encode(TEXT) == own.encode(TEXT).ids
    assert pair.tokenizer.eos_token_id == 0


def test_the_chat_template_is_read_beside_the_file(tmp_path):
    chat = {"tokenizer_class": "Qwen2Tokenizer", "chat_template": "{{ messages[0]['content'] }}!"}
    folder = folder_of(tmp_path, own_tokenizer(*FILES["digits"]), "llama", **chat)
    assert specdec.load_pair(folder).chat_text("hi") == "hi!"


def test_tokenizers_are_the_same_where_all_their_files_are(tmp_path):
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        byte_level_tokenizer().save_pretrained(folder)
    assert same_tokenizers(*folders)
    (folders[1] / "added_tokens.json").write_text('{"<new>": 500}')
    assert not same_tokenizers(*folders)
    assert not same_tokenizers(tmp_path, tmp_path)  # neither tokenizer has one
