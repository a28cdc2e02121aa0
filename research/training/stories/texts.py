"""The stories, split into those for training and held-out ones, and the tokenizer of both models."""

from itertools import pairwise
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from research.training.loop import save
from research.training.prompts import END, read_stories
from research.training.stories.recipe import Recipe


def read_texts(stories: Path, every: int) -> dict[str, list[str]]:
    """The stories for training, and the held-out stories, which are every `every`-th story of the file.

    ValueError if the file is missing or has too few stories.
    """
    documents = read_stories(stories)
    if len(documents) < every:
        raise ValueError(f"{str(stories)!r} has {len(documents)} stories; at least {every} are needed")
    held_out = documents[every - 1 :: every]
    del documents[every - 1 :: every]
    return {"stories": documents, "stories_held_out": held_out}


def train_tokenizer(texts: list[str], vocab_size: int, context: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer. It encodes any text, and its decoding returns exactly this text."""
    bytelevel = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer, bpe.decoder = bytelevel, decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END],
        show_progress=False,
        initial_alphabet=bytelevel.alphabet(),
    )
    bpe.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=END, model_max_length=context, clean_up_tokenization_spaces=False
    )


def make_tokens(stories: Path, work: Path, recipe: Recipe) -> None:
    """Stage 1: writes the tokenizer and the encoded texts.

    All stories of a part are one sequence of token ids, with the end token before, between and after them.
    """
    texts = read_texts(stories, recipe.held_out_every)
    tokenizer = train_tokenizer(texts["stories"], recipe.vocab_size, recipe.context)
    tokenizer.save_pretrained(work / "tokenizer")
    end, tokens, characters = tokenizer.eos_token_id, {}, {}
    for name, documents in texts.items():
        rows = tokenizer(documents, verbose=False)["input_ids"]
        ids = [end, *(token_id for row in rows for token_id in [*row, end])]
        tokens[name], characters[name] = torch.tensor(ids, dtype=torch.int16), sum(map(len, documents))
        print(f"tokenizer: {name}: {len(ids):,} tokens for {characters[name]:,} characters", flush=True)
    save(work / "tokens.pt", {"tokens": tokens, "characters": characters})


def read_tokens(work: Path) -> dict[str, Tensor]:
    """The encoded texts that `make_tokens` wrote."""
    return torch.load(work / "tokens.pt", weights_only=True)["tokens"]


def draw_rows(text: Tensor, length: int, rows: int, generator: torch.Generator) -> Tensor:
    """Random sections of a text, [rows, length + 1]. Half of them begin at an end token or just after it.

    ValueError if the text is shorter than a row.
    """
    last = len(text) - length - 1
    if last < 1:
        raise ValueError(f"a text of {len(text)} tokens is too short for rows of {length}; give more text")
    out = []
    for _ in range(rows):
        start = float(torch.rand((), generator=generator))
        place = int(torch.randint(last, (1,), generator=generator))
        if start < 0.5:
            place = min(last, next_end(text, place) + int(start < 0.25))
        out.append(text[place : place + length + 1])
    return torch.stack(out).long()


def next_end(text: Tensor, place: int) -> int:
    """The position of the next end token within 2,000 tokens; `place` itself if there is none."""
    ends = (text[place : place + 2000] == 0).nonzero()
    return place + int(ends[0]) if len(ends) else place


def story_rows(tokens: Tensor, context: int) -> list[Tensor]:
    """Each story, with the end token on both sides, cut to at most context + 1 tokens."""
    ends = (tokens == 0).nonzero().flatten().tolist()
    return [tokens[a : min(b + 1, a + context + 1)].long() for a, b in pairwise(ends)]
