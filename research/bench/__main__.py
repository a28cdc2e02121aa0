"""`specdec bench` with two additions: the processor time of each part of a round, and pairs with random
weights: `python -m research.bench --synthetic 66m`."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

import torch

from research.bench import gpu
from research.bench.profile import profile, table
from research.bench.states import ACCEPTANCE, FAMILIES, hybrid_pair
from research.bench.synthetic import PRESETS, LlamaSizes, checked_acceptance, synthetic_pair
from specdec import ModelPair
from specdec.bench import command
from specdec.bench.contestants import without_end
from specdec.checks import among
from specdec.commands import without_traceback, write_json
from specdec.models.load import DTYPES


def parser() -> ArgumentParser:
    """The options of `specdec bench`, and those of a pair with random weights."""
    result, shape = command.parser(), "layers,width,inner,heads,kv_heads,head_size"
    add = result.add_argument
    add("--synthetic", help=f"a pair with random weights: {', '.join((*PRESETS, *FAMILIES))}")
    add("--target-shape", metavar=shape, help="six numbers that replace the synthetic preset's shape")
    add("--draft-shape", metavar=shape)
    add("--vocabulary", type=int, help="vocabulary of the synthetic pair")
    add("--acceptance", type=float, help="acceptance of the synthetic pair's first drafted token")
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the bench and print the result. A ValueError is a user's mistake."""
    options = parser().parse_args(arguments)
    contest = command.prepared(options, built if options.synthetic else command.loaded)
    own = [each for each in contest.contestants if each.kind == "specdec"]
    result = command.compared(contest)
    command.show(result)
    if options.json:
        write_json(options.json, result)  # written now, because the profile takes minutes
    if command.device_of(options) == "cpu":
        profiles = {each.name: profile(contest.pairs[each.dtype], each, contest.trial[0]) for each in own}
        print(f"\n{table(profiles)}")
        print("\nprofile: milliseconds of processor time per round; races + verify: their share of the round")
        result |= {"profile_ms": profiles}
    else:
        result |= {"gpu": gpu.figures(contest.pairs[own[0].dtype], contest.trial[0])}
        print(f"\n{gpu.table(result['gpu'])}")
    if options.json:
        write_json(options.json, result)


def built(options: Namespace) -> command.Loaded:
    """The pair with random weights in every dtype to try, by the dtype's name; and the pair's description."""
    if any((options.pair, options.target, options.draft)):
        raise ValueError("a synthetic pair loads no models: leave out --synthetic, or the names of models")
    among("synthetic", options.synthetic, (*PRESETS, *FAMILIES))
    device = "cuda" if command.device_of(options) == "auto" else command.device_of(options)
    pairs, facts = {}, dict[str, Any]()
    for name in command.dtypes(options):
        dtype = DTYPES[among("dtype", name, DTYPES)]
        pair, facts = (_with_states if options.synthetic in FAMILIES else _sized)(options, dtype, device)
        pairs[name] = without_end(pair)
    return pairs, {"synthetic": options.synthetic} | facts | command.described(options, pair)


def _with_states(options: Namespace, dtype: torch.dtype, device: str) -> tuple[ModelPair, dict[str, Any]]:
    if any((options.target_shape, options.draft_shape, options.vocabulary, options.draft_dtype)):
        raise ValueError(f"synthetic = {options.synthetic!r} has fixed sizes and one dtype")
    acceptance = checked_acceptance(ACCEPTANCE if options.acceptance is None else options.acceptance)
    pair, measured = hybrid_pair(options.synthetic, dtype, acceptance, device)
    return pair, {"acceptance": measured, "target": pair.target.name}


def _sized(options: Namespace, dtype: torch.dtype, device: str) -> tuple[ModelPair, dict[str, Any]]:
    shapes = {role: getattr(options, f"{role}_shape") for role in ("target", "draft")}
    changes: dict[str, Any] = {role: _shape(role, text) for role, text in shapes.items() if text}
    changes |= {"vocab_size": options.vocabulary, "acceptance": options.acceptance}
    changes = {name: value for name, value in changes.items() if value is not None}
    preset = PRESETS[options.synthetic]._replace(**changes)
    pair, measured = synthetic_pair(preset, dtype, options.draft_dtype, device)
    facts = {"target": preset.target._asdict(), "draft": preset.draft._asdict()}
    return pair, {"acceptance": measured} | facts


def _shape(role: str, text: str) -> LlamaSizes:
    numbers = command.numbers(f"{role}-shape", text)
    if len(numbers) != len(LlamaSizes._fields):
        raise ValueError(f"{role}-shape = {text!r} is not six numbers: {', '.join(LlamaSizes._fields)}")
    return LlamaSizes(*numbers)


if __name__ == "__main__":
    with without_traceback():
        main()
