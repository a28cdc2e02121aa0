"""Which engines give a seed the same text again: `python -m research.audit.repeats`.

Texts of random models are compared in four ways: repeated, with a draft and without, alone and as one of a
batch of 8, in float32 and in bfloat16. Each number is how many of the texts agree, token by token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch

from research.audit import tiny
from research.audit.engines import engines
from specdec.checks import whole
from specdec.commands import Parser, ended, write_json
from specdec.decoding.batch import generate_many
from specdec.exactness.audit.engines import tree_of
from specdec.exactness.audit.report import saved
from specdec.methods import DRAFTING
from specdec.models import HFModel
from specdec.pair import ModelPair

TOKENS = 24
BATCH = 8
SAMPLING = (1.0, 0, 1.0)


def _row(
    texts: int,
    drafting: str,
    plain: str,
    in_batch: Callable[[ModelPair, str], Callable[[int], Sequence[int]]] | None = None,
    rounds: bool = True,
) -> dict[str, Any]:
    """The four agreements of an engine with a draft, and of its plain decoding if that is another one.

    in_batch: the first text of a batch that begins with a seed. rounds: whether the engine has bfloat16.
    """
    pair, arguments = tiny.models(drafting)
    text = _alone(drafting, pair, arguments)
    alone = [text(seed) for seed in range(texts)]

    def same(other: Callable[[int], Sequence[int]]) -> int:
        return sum(list(other(seed)) == text for seed, text in enumerate(alone))

    row: dict[str, Any] = {"of": texts, "repeated": same(text)}
    if plain != drafting:
        row["without a draft"] = same(_alone(plain, pair, arguments))
    if in_batch is not None:
        row["in a batch of 8"] = same(in_batch(pair, drafting))
    if rounds:
        rounded, others = tiny.models(drafting)
        loaded: list[Any] = [model for model in (rounded.target, rounded.draft) if model is not None]
        halved = ModelPair(*(HFModel(model.module.to(torch.bfloat16)) for model in loaded))
        halved.eos_ids = pair.eos_ids
        row["in bfloat16"] = same(_alone(drafting, halved, others))
    return row


def _alone(
    name: str, pair: ModelPair, arguments: dict[str, Any], batch: int = 1
) -> Callable[[int], list[int]]:
    """The text of a seed."""
    sample = engines(drafting=arguments, batch=batch)[name].start(pair)

    def text(seed: int) -> list[int]:
        said = sample(tiny.PROMPT, seed, TOKENS, *SAMPLING)
        assert not isinstance(said, str), "engines that are asked here return tokens"
        return list(said)

    return text


def _copied_in_batch(pair: ModelPair, name: str) -> Callable[[int], list[int]]:
    """OpenVINO has one seed for all texts that it decodes together."""
    return _alone(name, pair, {}, BATCH)


def _served_in_batch(pair: ModelPair, name: str) -> Callable[[int], list[int]]:
    """Eight requests to a server at once, with seeds that differ by 1000."""
    text = _alone(name, pair, {}, BATCH)

    def first(seed: int) -> list[int]:
        with ThreadPoolExecutor(BATCH) as pool:
            return next(pool.map(text, [seed + 1000 * i for i in range(BATCH)]))

    return first


def _ours_in_batch(pair: ModelPair, name: str) -> Callable[[int], list[int]]:
    """Our texts of seeds that differ by 1000, decoded together."""
    method: Any = name.partition("-")[2]

    def first(seed: int) -> list[int]:
        seeds = [seed + 1000 * i for i in range(BATCH)]
        tree = tree_of(method)
        prompts = [tiny.PROMPT] * BATCH
        texts = generate_many(pair, prompts, method=method, seeds=seeds, topology=tree, max_new_tokens=TOKENS)
        return list(texts[0].token_ids)

    return first


def _transformers_in_batch(pair: ModelPair, _: str) -> Callable[[int], list[int]]:
    """transformers has one generator for all texts that it samples together."""
    ids = torch.tensor([tiny.PROMPT] * BATCH)
    options = {"do_sample": True, "top_k": 0, "max_new_tokens": TOKENS, "pad_token_id": 0}

    def first(seed: int) -> list[int]:
        with torch.inference_mode(), torch.random.fork_rng():
            torch.manual_seed(seed)
            output = pair.target.module.generate(ids, attention_mask=torch.ones_like(ids), **options)  # type: ignore[attr-defined]
        return output[0, ids.shape[1] :].tolist()

    return first


ROWS: dict[str, Callable[[int], dict[str, Any]]] = {
    **{
        f"ours, {method.upper()}": partial(
            _row, drafting=f"ours-{method}", plain="ours-ar", in_batch=_ours_in_batch
        )
        for method in DRAFTING
    },
    "transformers, assisted": partial(_row, drafting="transformers-assisted", plain="transformers"),
    "transformers, plain": partial(
        _row, drafting="transformers", plain="transformers", in_batch=_transformers_in_batch
    ),
    "openvino": partial(_row, drafting="openvino-draft", plain="openvino", in_batch=_copied_in_batch),
    "onnxruntime": partial(_row, drafting="onnxruntime-draft", plain="onnxruntime", rounds=False),
    "llama.cpp": partial(_row, drafting="llama.cpp-draft", plain="llama.cpp", in_batch=_served_in_batch),
    "mlx-lm": partial(_row, drafting="mlx-lm-draft", plain="mlx-lm"),
    "node-llama-cpp": partial(_row, drafting="node-llama-cpp-draft", plain="node-llama-cpp"),
}
"""How each engine's row is measured, for a number of texts."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the rows of engines that are installed; a file, if one is named, keeps its other rows."""
    parser = Parser(prog="python -m research.audit.repeats", description=__doc__)
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--engine", nargs="+", choices=ROWS, default=[*ROWS])
    parser.add_argument("--json", type=Path, help="a file of rows, to which these are added")
    options = parser.parse_args(arguments)
    texts = whole("texts", options.texts, 1)
    rows = saved(options.json) if options.json else {}
    for name in options.engine:
        try:
            rows[name] = ROWS[name](texts)
        except ModuleNotFoundError as error:
            print(f"{name}: not installed, {error}")
            continue
        print(name, rows[name], flush=True)
        if options.json:
            write_json(options.json, rows)


if __name__ == "__main__":
    with ended():
        main()
