"""The texts, split into training and held-out parts, and the tokenizer that both models use."""

from itertools import pairwise
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from specdec.training.files import save
from specdec.training.stories.recipe import Recipe

END = "<|endoftext|>"
GENERAL, STORIES = "childrens-classics.txt", "tinystories-5k.txt"


def read_texts(corpus: Path, recipe: Recipe) -> dict[str, list[str]]:
    """The documents of both texts, split into training and held-out parts.

    ValueError if a text is missing.
    """
    parts = {}
    for name, file, share in (
        ("general", GENERAL, recipe.general_held_out),
        ("stories", STORIES, recipe.held_out),
    ):
        path = corpus / file
        if not path.is_file():
            raise ValueError(f"corpus = {str(corpus)!r} has no {file}")
        documents = [text.strip() for text in path.read_text(encoding="utf-8").split(END) if text.strip()]
        if not documents:
            raise ValueError(f"{str(path)!r} is empty")
        parts[name], parts[name + "_held_out"] = split_end(documents, share)
    return parts


def split_end(documents: list[str], share: float) -> tuple[list[str], list[str]]:
    """Splits off the last documents, about `share` of all characters.

    If the last document alone is longer than that, it is cut at the end of a line.

    >>> split_end(["ab", "cd"], 0.5)
    (['ab'], ['cd'])
    >>> split_end(["ab\\ncd"], 0.5)
    (['ab'], ['cd'])
    """
    wanted, head = share * sum(map(len, documents)), list(documents)
    tail: list[str] = []
    while head and sum(map(len, tail)) + len(head[-1]) <= wanted:
        tail.insert(0, head.pop())
    if not tail:
        at = head[-1].find("\n", int(len(head[-1]) - wanted) - 1)
        head[-1], tail = head[-1][:at].strip(), [head[-1][at:].strip()]
    return head, tail


def train_tokenizer(texts: list[str], vocab_size: int, context: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer. It encodes any text, and decoding returns exactly that text."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=[END],
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=END, model_max_length=context, clean_up_tokenization_spaces=False
    )


def encode(tokenizer: PreTrainedTokenizerFast, documents: list[str]) -> Tensor:
    """All documents as one row of token ids, with the end token before, between and after them."""
    end = tokenizer.eos_token_id
    rows = tokenizer(documents, verbose=False)["input_ids"]
    return torch.tensor([end, *(token_id for row in rows for token_id in [*row, end])], dtype=torch.int16)


def make_tokens(corpus: Path, work: Path, recipe: Recipe) -> None:
    """Stage 1: writes the tokenizer and the encoded texts."""
    texts = read_texts(corpus, recipe)
    half = len(texts["general"]) // 2 + 1
    tokenizer = train_tokenizer(texts["stories"] + texts["general"][:half], recipe.vocab_size, recipe.context)
    tokenizer.save_pretrained(work / "tokenizer")
    tokens = {name: encode(tokenizer, documents) for name, documents in texts.items()}
    characters = {name: sum(map(len, documents)) for name, documents in texts.items()}
    save(work / "tokens.pt", {"tokens": tokens, "characters": characters})
    for name, row in tokens.items():
        print(f"tokenizer: {name}: {len(row):,} tokens for {characters[name]:,} characters", flush=True)


def draw_rows(
    tokens: dict[str, Tensor], length: int, general: float, rows: int, generator: torch.Generator
) -> Tensor:
    """Random rows [rows, length + 1] of the general text with probability `general`, else of the stories.

    Half of the story rows begin where a story begins, at the end token or just after it.
    """
    out = []
    for _ in range(rows):
        choice, start = torch.rand(2, generator=generator).tolist()
        text = tokens["general" if choice < general else "stories"]
        last = len(text) - length - 1
        if last < 1:
            raise ValueError(
                f"a text of {len(text)} tokens is too short for rows of {length}; give more text"
            )
        at = int(torch.randint(last, (1,), generator=generator))
        if choice >= general and start < 0.5:
            at = min(last, next_end(text, at) + int(start < 0.25))
        out.append(text[at : at + length + 1])
    return torch.stack(out).long()


def next_end(text: Tensor, at: int) -> int:
    """The position of the next end token within 2,000 tokens; `at` itself if there is none."""
    ends = (text[at : at + 2000] == 0).nonzero()
    return at + int(ends[0]) if len(ends) else at


def story_rows(tokens: Tensor, context: int) -> list[Tensor]:
    """Each document with the end token on both sides, cut to context + 1 tokens."""
    ends = (tokens == 0).nonzero().flatten().tolist()
    return [tokens[a : min(b + 1, a + context + 1)].long() for a, b in pairwise(ends)]


def fixed_rows(tokens: Tensor, length: int, count: int) -> list[Tensor]:
    """`count` rows at even distances in a text."""
    last = max(1, len(tokens) - length - 1)
    return [tokens[at : at + length + 1].long() for at in range(0, last, max(1, last // count))][:count]
