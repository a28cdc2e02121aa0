"""Which engines give a seed the same text again: `python -m specdec.exactness.audit.repeats`.

Texts of random models are compared in four ways: repeated, with a draft and without, alone and as one of a
batch of 8, in float32 and in bfloat16. Each number is how many of the texts agree, token by token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from specdec.checks import whole
from specdec.commands import Parser, ended, to_write, write_json
from specdec.decoding.batch import generate_many
from specdec.exactness.audit import engines, tiny
from specdec.exactness.audit.run import Sample
from specdec.methods import DRAFTING
from specdec.models import HFModel
from specdec.pair import ModelPair

TOKENS = 24
BATCH = 8
SAMPLING = (1.0, 0, 1.0)


def rows(texts: int) -> dict[str, dict[str, Any]]:
    """The agreeing texts of each engine, of so many; in words what an engine cannot do."""
    found: dict[str, dict[str, Any]] = {}
    for method in DRAFTING:
        found[f"ours, {method.upper()}"] = _row(texts, f"ours-{method}", "ours-ar", _ours_in_batch(method))
    found["transformers, assisted"] = _row(texts, "transformers-assisted", "transformers", None)
    found["transformers, plain"] = _row(texts, "transformers", None, _transformers_in_batch)
    for name in ("openvino", "onnxruntime"):
        try:
            found[name] = _row(texts, f"{name}-draft", name, None, arithmetic=False)
        except ModuleNotFoundError:
            found[name] = {"not installed": True}
    return found


def _row(
    texts: int,
    drafting: str,
    plain: str | None,
    in_batch: Callable[[ModelPair, int], list[int]] | None,
    arithmetic: bool = True,
) -> dict[str, Any]:
    """The four agreements of one engine. in_batch: the first text of a batch that begins with this seed."""
    pair, arguments = tiny.models(drafting)
    sample = _engine(drafting, pair, arguments)
    alone = [_text(sample, seed) for seed in range(texts)]

    def same(other: Callable[[int], Sequence[int]]) -> int:
        return sum(list(other(seed)) == text for seed, text in enumerate(alone))

    row: dict[str, Any] = {"of": texts, "repeated": same(lambda seed: _text(sample, seed))}
    if plain is not None:
        without = _engine(plain, pair, arguments)
        row["without a draft"] = same(lambda seed: _text(without, seed))
    if in_batch is not None:
        row["in a batch of 8"] = same(lambda seed: in_batch(pair, seed))
    if arithmetic:
        rounded, others = tiny.models(drafting)
        loaded: list[Any] = [model for model in (rounded.target, rounded.draft) if model is not None]
        rounded = ModelPair(*(HFModel(model.module.to(torch.bfloat16)) for model in loaded))
        halved = _engine(drafting, rounded, others)
        row["in bfloat16"] = same(lambda seed: _text(halved, seed))
    return row


def _engine(name: str, pair: ModelPair, arguments: dict[str, Any]) -> Sample:
    return engines.engine(name, pair, drafting=arguments)


def _text(sample: Sample, seed: int) -> list[int]:
    text = sample(tiny.PROMPT, seed, TOKENS, *SAMPLING)
    assert not isinstance(text, str), "engines that are asked here return tokens"
    return list(text)


def _ours_in_batch(method: Any) -> Callable[[ModelPair, int], list[int]]:
    """Our texts of seeds that differ by 1000, decoded together."""

    def decode(pair: ModelPair, seed: int) -> list[int]:
        seeds = [seed + 1000 * i for i in range(BATCH)]
        tree = engines.tree_of(method)
        prompts = [tiny.PROMPT] * BATCH
        texts = generate_many(pair, prompts, method=method, seeds=seeds, topology=tree, max_new_tokens=TOKENS)
        return list(texts[0].token_ids)

    return decode


def _transformers_in_batch(pair: ModelPair, seed: int) -> list[int]:
    """The first of eight texts that transformers samples together; they share one generator."""
    ids = torch.tensor([tiny.PROMPT] * BATCH)
    options = {"do_sample": True, "top_k": 0, "max_new_tokens": TOKENS, "pad_token_id": 0}
    with torch.inference_mode(), torch.random.fork_rng():
        torch.manual_seed(seed)
        output = pair.target.module.generate(ids, attention_mask=torch.ones_like(ids), **options)  # type: ignore[attr-defined]
    return output[0, ids.shape[1] :].tolist()


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the rows, and writes them to a file if one is named."""
    parser = Parser(prog="python -m specdec.exactness.audit.repeats", description=__doc__)
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--json", type=to_write)
    options = parser.parse_args(arguments)
    found = rows(whole("texts", options.texts, 1))
    for name, row in found.items():
        print(name, row)
    if options.json:
        write_json(options.json, found)


if __name__ == "__main__":
    with ended():
        main()
