"""Trains the draft for SmolLM2: the target generates text, and the draft learns its probabilities."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from research.training.learner import Learner, Lessons
from research.training.llama import Shape, identity_model
from research.training.loop import Rates, Trainer
from research.training.prompts import KINDS, Prompts, read_stories
from research.training.records import Record, load, sampled, write_missing
from specdec import ModelPair, load_pair
from specdec.models.partial import CONFIG, IDS, PROJECTION, WEIGHTS

SHAPE = Shape(2, 256, 704, 4)
RATES = Rates(matrix_decay=0.1, other_decay=0.1, warm_up=40, decay_from=0.5)
LESSONS = Lessons(4096, late=0.5, prompt_weight=0.2, temperatures=(1.0, 0.7))
HELD_OUT = 10_000  # added to the seeds of the records on which the draft is measured
MEASURED = {"held-0.pt": 1.0, "held-1.pt": 0.7}  # the files of these records, with their temperatures
ENTRIES = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "max_position_embeddings", "tie_word_embeddings"),
)
"""The entries of the draft's configuration, in addition to the size of the vocabulary."""
USER = 4093  # the id of SmolLM2's token "user"
HEATS = (0.6, 0.7, 0.7, 0.7, 0.8, 0.8, 0.9, 1.0)  # each row of a record draws one of these temperatures


@dataclass(frozen=True)
class Recipe:
    """The shape of the draft, and the settings of its training.

    All matrices get weight decay, because training reads each record several times.
    """

    shape: Shape = SHAPE
    scored: int = 8192  # the number of ids that the draft scores
    context: int = 8192
    records: int = 190  # the number of files of text for training
    rows: int = 64  # of a record
    length: int = 512  # tokens of a row
    top: int = 96  # the number of probabilities stored at each position
    rates: Rates = RATES
    lessons: Lessons = LESSONS
    steps: int = 8000


def train(
    stories: Path, work: Path, out: Path, pair: ModelPair | None = None, recipe: Recipe = Recipe()
) -> None:
    """Samples text, trains the draft, measures it and writes it.

    A stage whose result is in the work folder is not repeated. stories: a file of texts; some prompts are
    beginnings of these texts. pair: the pair with the target; None for SmolLM2. ValueError without that file.
    """
    torch.set_num_threads(1)
    texts = read_stories(stories)
    random.Random(0).shuffle(texts)
    work.mkdir(parents=True, exist_ok=True)
    pair = pair or load_pair("smollm2", device="cpu", dtype="bfloat16")
    seeds = {name: HELD_OUT + number for number, name in enumerate(MEASURED)}
    seeds |= {path.name: number for number, path in enumerate(records_in(work, recipe))}
    for name, seed in seeds.items():
        heat = MEASURED.get(name)
        prompts = Prompts(texts, seed, held_out=heat is not None)
        write_missing(work / name, partial(chat_record, pair, prompts, recipe, seed, heat))
    target: Any = pair.target
    trainer, learner = begun(target.module.get_input_embeddings().weight.detach(), work, recipe)
    held_out = {heat: load(work / name) for name, heat in MEASURED.items()}
    trainer.run(learner.backward, lambda: learner.measure(held_out[1.0]))
    acceptance = {f"T = {heat}": by_kind(learner, record, heat) for heat, record in held_out.items()}
    print(json.dumps(acceptance), flush=True)
    write(learner, out)


def records_in(work: Path, recipe: Recipe) -> list[Path]:
    """The files of the records for training."""
    return [work / f"train-{number:03}.pt" for number in range(recipe.records)]


def chat_record(pair: ModelPair, prompts: Prompts, recipe: Recipe, seed: int, heat: float | None) -> Record:
    """A record of prompts of all kinds, with answers. heat: all rows' temperature; None draws one per row."""
    generator = torch.Generator().manual_seed(seed)
    kinds = [KINDS[row % len(KINDS)] for row in range(recipe.rows)]
    random_heats = torch.tensor(HEATS)[torch.randint(len(HEATS), (recipe.rows,), generator=generator)]
    heats = random_heats if heat is None else torch.full((recipe.rows,), heat)
    tokenizer: Any = pair.tokenizer

    def encoded(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    def after(row: int, ids: Sequence[int]) -> Sequence[int]:
        # what ended is an answer, or a user's turn that the model wrote (the token USER follows <|im_start|>)
        last_start = max((place for place, token_id in enumerate(ids) if token_id == 1), default=len(ids))
        is_answer = kinds[row] == "free" and list(ids[last_start + 1 : last_start + 2]) == [USER]
        return encoded("\n<|im_start|>assistant\n" if is_answer else prompts.next(kinds[row]))

    prefixes = [encoded(prompts.first(kind)) for kind in kinds]
    record = sampled(pair, prefixes, recipe.length, recipe.top, seed, heats.tolist(), after)
    return record | {"temperature": heats, "kind": kinds}


class ProjectedEmbedding(nn.Module):
    """The target's embedding [vocabulary, its width], frozen and not saved, times a learned matrix."""

    embedding: Tensor

    def __init__(self, embedding: Tensor, width: int):
        super().__init__()
        self.register_buffer("embedding", embedding, persistent=False)
        self.projection = nn.Linear(embedding.shape[1], width, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """The projected embeddings of these ids, [..., width]."""
        return self.projection(nn.functional.embedding(ids, self.embedding))


def partial_model(shape: Shape, embedding: Tensor, ids: Tensor, context: int) -> LlamaForCausalLM:
    """An untrained draft that scores only these ids.

    embedding: the target's embedding, [vocabulary, its width]. The input and output matrices start as
    principal directions of the embedding, and each block starts as the identity.
    """
    ends = {"tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": None}
    model = identity_model(shape, len(ids), context, seed=0, **ends)
    embedding = embedding.float()
    some = embedding[ids] - embedding[ids].mean(0)
    directions = torch.linalg.svd(some, full_matrices=False).Vh[: shape.width]
    entry = ProjectedEmbedding(embedding, shape.width)
    model.model.embed_tokens = entry
    model.register_buffer(IDS, ids)
    with torch.no_grad():
        spread = (some @ directions.T).std()
        entry.projection.weight.copy_(directions / spread)
        model.lm_head.weight.copy_(some @ directions.T / spread * 0.005)
    return model


def begun(embedding: Tensor, work: Path, recipe: Recipe) -> tuple[Trainer, Learner]:
    """The trainer and the learner of the draft. embedding: the target's, [vocabulary, its width]."""
    records = [load(path) for path in records_in(work, recipe)]
    ids = most_used(records, len(embedding), recipe.scored)
    model = partial_model(recipe.shape, embedding, ids, recipe.context)
    place = torch.full((len(embedding),), -1)
    place[ids] = torch.arange(len(ids))
    trainer = Trainer("draft", model, recipe.rates, recipe.steps, work)
    return trainer, Learner(model, place, records, recipe.lessons)


def by_kind(learner: Learner, record: Record, heat: float) -> dict[str, dict[str, float]]:
    """Acceptance on the text that the target generated for a record: in all rows, and by kind of prompt."""
    kinds = record["kind"]
    rows_of = {kind: torch.tensor([each == kind for each in kinds]) for kind in sorted(set(kinds))}
    return {kind: learner.measure(record, heat, rows) for kind, rows in ({"all": None} | rows_of).items()}


def write(learner: Learner, out: Path) -> None:
    """Writes the draft in bfloat16, in the form that `specdec.models.partial` loads."""
    state = learner.model.state_dict()
    ids = state.pop(IDS).int()
    state = {name: value.bfloat16().contiguous() for name, value in state.items()} | {IDS: ids}
    state[PROJECTION] = state.pop("model.embed_tokens.projection.weight")
    out.mkdir(parents=True, exist_ok=True)
    save_file(state, out / WEIGHTS, metadata={"format": "pt"})
    config = learner.model.config.to_dict()
    entries = {"vocab_size": len(learner.place)} | {name: config[name] for name in ENTRIES}
    (out / CONFIG).write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")


def most_used(records: list[Record], vocab_size: int, count: int) -> Tensor:
    """The `count` ids to which the target gives the most probability in the records, in rising order."""
    mass = torch.zeros(vocab_size, dtype=torch.float64)
    for record in records:
        mass.index_add_(0, record["top"].flatten().long(), record["p"].flatten().double())
    return mass.argsort(descending=True)[:count].sort().values
