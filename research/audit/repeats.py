"""Finds which engines give the same text for the same seed: `python -m research.audit.repeats`.

On random models, each text is compared with other texts of the same seed: decoded again, without a draft, in
a batch of 8, and in bfloat16. Each number in the table says how many of the texts agree in all tokens.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch

from research.audit import tiny
from research.audit.engines import engines
from specdec import ModelPair, generate_many
from specdec.checks import whole
from specdec.commands import Parser, without_traceback, write_json
from specdec.exactness.audit.engines import tree_of
from specdec.exactness.audit.report import saved
from specdec.methods import DRAFTING, METHODS
from specdec.models import HFModel

TOKENS, BATCH = 24, 8
Text = Callable[[int], Sequence[int]]  # a function from a seed to the token ids of its text


def _alone(name: str, pair: ModelPair, arguments: dict[str, Any] | None = None, batch: int = 1) -> Text:
    """The `Text` of an engine that gets one request at a time.

    batch: how many copies of the text, all with the same seed, the engine decodes together for one request.
    """
    sample: Any = engines(drafting=arguments, batch=batch)[name].start(pair)
    return lambda seed: list(sample(tiny.PROMPT, seed, TOKENS, 1.0, 0, 1.0))


def _served_in_batch(name: str, pair: ModelPair) -> Text:
    """A `Text`: the first of the answers of a server to eight requests at once, with seeds 1000 apart."""
    text = _alone(name, pair, batch=BATCH)

    def first(seed: int) -> Sequence[int]:
        with ThreadPoolExecutor(BATCH) as pool:
            return next(pool.map(text, _seeds(seed)))

    return first


def _ours_in_batch(name: str, pair: ModelPair) -> Text:
    """A `Text`: the first of eight texts that specdec decodes together, with seeds 1000 apart."""
    method: Any = name.partition("-")[2]
    settings: dict[str, Any] = {"method": method, "topology": tree_of(method), "max_new_tokens": TOKENS}
    prompts = [tiny.PROMPT] * BATCH
    return lambda seed: generate_many(pair, prompts, seeds=_seeds(seed), **settings)[0].token_ids


def _transformers_in_batch(_: str, pair: ModelPair) -> Text:
    """A `Text`: the first of eight texts that transformers samples together with one generator."""
    target: Any = pair.target
    ids = torch.tensor([tiny.PROMPT] * BATCH)
    options = {"do_sample": True, "top_k": 0, "max_new_tokens": TOKENS, "pad_token_id": 0}

    def first(seed: int) -> Sequence[int]:
        with torch.inference_mode(), torch.random.fork_rng():
            torch.manual_seed(seed)
            output = target.module.generate(ids, attention_mask=torch.ones_like(ids), **options)
        return output[0, ids.shape[1] :].tolist()

    return first


def _seeds(seed: int) -> list[int]:
    return [seed + 1000 * i for i in range(BATCH)]


InBatch = Callable[[str, ModelPair], Text] | None
ROWS: dict[str, tuple[str, str, InBatch]] = {
    **{f"ours, {METHODS[each].name}": (f"ours-{each}", "ours-ar", _ours_in_batch) for each in DRAFTING},
    "transformers, assisted": ("transformers-assisted", "transformers", None),
    "transformers, plain": ("transformers", "transformers", _transformers_in_batch),
    "openvino": ("openvino-draft", "openvino", partial(_alone, batch=BATCH)),
    "onnxruntime": ("onnxruntime-draft", "onnxruntime", None),
    "llama.cpp": ("llama.cpp-draft", "llama.cpp", _served_in_batch),
    "mlx-lm": ("mlx-lm-draft", "mlx-lm", None),
    "node-llama-cpp": ("node-llama-cpp-draft", "node-llama-cpp", None),
}
"""For each row: the engine with a draft, the engine without, and what makes a batch's `Text`, or None."""


def row(texts: int, name: str, plain: str, in_batch: InBatch) -> dict[str, int]:
    """For each comparison, how many of `texts` texts agree. ModuleNotFoundError without the engine."""
    pair, arguments = tiny.models(name)
    text = _alone(name, pair, arguments)
    ways = {"repeated": text}
    if plain != name:
        ways["without a draft"] = _alone(plain, pair, arguments)
    if in_batch is not None:
        ways["in a batch of 8"] = in_batch(name, pair)
    if plain != "onnxruntime":  # onnxruntime's engine exists only in float32
        rounded, drafting = tiny.models(name)
        models: list[Any] = [model for model in (rounded.target, rounded.draft) if model is not None]
        halved = ModelPair(*(HFModel(model.module.to(torch.bfloat16)) for model in models))
        halved.eos_ids = pair.eos_ids
        ways["in bfloat16"] = _alone(name, halved, drafting)
    alone = [list(text(seed)) for seed in range(texts)]
    agreements = {
        way: sum(list(other(seed)) == ids for seed, ids in enumerate(alone)) for way, other in ways.items()
    }
    return {"of": texts} | agreements


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a row for each installed engine. The rows of other engines in the file of --json stay."""
    parser = Parser(prog="python -m research.audit.repeats", description=__doc__)
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--engine", nargs="+", choices=ROWS, default=[*ROWS])
    parser.add_argument("--json", type=Path, help="a file of rows, to which these are added")
    options = parser.parse_args(arguments)
    texts = whole("texts", options.texts, 1)
    rows = saved(options.json) if options.json else {}
    for name in options.engine:
        try:
            rows[name] = row(texts, *ROWS[name])
        except ModuleNotFoundError as error:
            print(f"{name}: not installed, {error}")
            continue
        print(name, rows[name], flush=True)
        if options.json:
            write_json(options.json, rows)


if __name__ == "__main__":
    with without_traceback():
        main()
