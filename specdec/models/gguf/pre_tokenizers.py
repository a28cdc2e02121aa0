"""The rules by which byte-level BPE cuts a text into words, whose bytes are then merged to tokens.

A GGUF file only names its rule (`tokenizer.ggml.pre`); the model's `tokenizer.json` states it as patterns.
Each pattern cuts the pieces that the earlier patterns made. A name that is not in `RULES` is refused, because
with a wrong rule the model would read tokens on which it was not trained. Rules of architectures whose GGUF
files transformers can't read are left out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tokenizers import Regex, pre_tokenizers


class Rule(NamedTuple):
    """The rule by which one vocabulary cuts texts into words.

    patterns: regular expressions that cut the text, applied in this order. on_bytes: expressions applied
    afterwards to the letters that stand for bytes in byte-level BPE. nfc: whether the text is normalised to
    NFC first. whole_words: whether a word that is in the vocabulary becomes one token without merging.
    begins: whether a text gets the token BOS at its beginning, unless the file says otherwise.
    """

    patterns: tuple[str, ...]
    on_bytes: tuple[str, ...] = ()
    nfc: bool = False
    whole_words: bool = False
    begins: bool = False

    def pre_tokenizer(self) -> Any:
        """The rule as a pre-tokenizer of `tokenizers`. In its words, a letter stands for each byte."""
        first, last = (
            [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
            for patterns in (self.patterns, self.on_bytes)
        )
        to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return pre_tokenizers.Sequence([*first, to_bytes, *last])


_DIGIT, _THREE_DIGITS = r"\p{N}", r"\p{N}{1,3}"
_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s+(?!\S)|\s+"
_GPT2 = rf"'s|'t|'re|'ve|'m|'ll|'d| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|{_SPACES}"
_LINES = rf"\s*[\r\n]+|{_SPACES}"
_WORD, _SIGNS = r"[^\r\n\p{L}\p{N}]?\p{L}+", r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_QWEN2 = rf"{_ENDINGS}|{_WORD}|{_DIGIT}|{_SIGNS}|{_LINES}"
_LLAMA3 = rf"{_ENDINGS}|{_WORD}|{_THREE_DIGITS}|{_SIGNS}|{_LINES}"
_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"


def _cased(endings: str) -> str:
    """A pattern for a word and its ending. A capital letter after a small letter begins a new word."""
    start = r"[^\r\n\p{L}\p{N}]?"
    return rf"{start}[{_UPPER}]*[{_LOWER}]+{endings}|{start}[{_UPPER}]+[{_LOWER}]*{endings}"


_SIGNS_OR_PATHS = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
_TEKKEN = rf"{_cased('')}|{_DIGIT}|{_SIGNS_OR_PATHS}|{_LINES}"
_GPT4O = rf"{_cased(_ENDINGS + '?')}|{_THREE_DIGITS}|{_SIGNS_OR_PATHS}|{_LINES}"
_CHINESE = "[一-龥\u0800-一가-\ud7ff]+"
_CASED_LETTERS = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-"
    "\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳ"
    "Ꙁ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)
_SENTENCE = r" ?[^(\s|.,!?…。，、।۔،)]+"

_RULES: dict[Rule, str] = {
    Rule((_GPT2,)): "gpt-2 phi-2 gigachat a.x-4.0 mellum jais trillion granite-docling exaone4",
    Rule((_DIGIT, _GPT2)): "starcoder refact smollm codeshell exaone minerva-7b mellum2",
    Rule((r"[\p{P}$+<=>^~|`]+", _GPT2), (r"\p{N}+", "[0-9]{3}")): "falcon",
    Rule((_LLAMA3,), whole_words=True, begins=True): (
        "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2"
    ),
    Rule((_LLAMA3,)): "dbrx smaug-bpe chatglm-bpe",
    Rule((_QWEN2,), nfc=True): "qwen2 deepseek-r1-qwen",
    Rule((_QWEN2,)): "kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2",
    Rule((_QWEN2.removeprefix(f"{_ENDINGS}|"),)): "ufakzeka",
    Rule(("[^\n]+|\n+", _QWEN2)): "laguna",
    Rule((_QWEN2.replace(_SIGNS, r" ?[^\s\p{L}\p{N}\r\n]+"),)): "seed-coder",
    Rule((_TEKKEN,), whole_words=True, begins=True): "tekken",
    Rule((_GPT4O,)): "gpt-4o llama4 kanana2 talkie minimax-m2",
    Rule((_THREE_DIGITS, _LLAMA3.replace(_THREE_DIGITS, r"\p{N}+")), whole_words=True): "minicpm5",
    Rule(("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CHINESE, _DIGIT)): "deepseek-coder",
    Rule(
        ("[\r\n]", rf"\s?[{_CASED_LETTERS}]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", _CHINESE, _DIGIT)
    ): "deepseek-llm",
    Rule((_SENTENCE,)): "poro-chat bloom gpt3-finnish",
    Rule((_SENTENCE, _DIGIT)): "viking",
}
RULES: dict[str, Rule] = {name: rule for rule, names in _RULES.items() for name in names.split()}
"""The rules by their names in llama.cpp (`tokenizer.ggml.pre`)."""
