"""Measures how often rounding changes a token: with one shared race, greedily, or with independent samples.

Each number format scores the same texts token by token, and is compared with float32. The results are total
variation, the exact probability that the winners of one race differ, the bound on this probability, and how
often winners differed in `RACES` races for each token. Whole texts are compared too: plain decoding with ERSD
on sequence(4), in one number format. The expected number of differing texts is the sum of the exact
probabilities up to the first difference.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from importlib import import_module
from itertools import zip_longest
from typing import Any, NamedTuple

import torch
from torch import nn

from research.estimates import Row
from research.experiments.texts import Text, TextExperiment, quotient
from research.theory import parting
from specdec import ModelPair, generate, theory
from specdec.learn import scored
from specdec.models.base import Model, SessionKind
from specdec.models.kernels.packing import round_matrices
from specdec.models.prepare import prepare
from specdec.models.session_kinds import COMPILED, LEAN
from specdec.probs import Sampling
from specdec.race import derived_seed, log_exponentials
from specdec.stats import IndexAcceptance
from specdec.topology import sequence

RACES = 16  # races for each token, whose winners are compared
ROWS = 5  # tokens that ERSD scores together on sequence(4): the last token and four drafted tokens


class Arithmetic(NamedTuple):
    """How logits are computed: by which forward pass, over how many rows, in which number format."""

    kind: SessionKind  # our compiled forward pass adds in float32; torch's operations round each result
    rows: int = 1  # tokens per forward pass
    dtype: torch.dtype = torch.float32
    rounded: Callable[[nn.Module], None] | None = None  # a function that rounds a float32 model's weights


def round_blocks(model: nn.Module, kind: str) -> None:
    """Rounds all matrices to GGUF's type `kind`, such as Q4_0. ModuleNotFoundError without gguf."""
    gguf = import_module("gguf")
    type_ = gguf.GGMLQuantizationType[kind]
    for module in model.modules():
        if isinstance(module, nn.Linear):
            blocks = gguf.quants.quantize(module.weight.detach().numpy(), type_)
            module.weight.data.copy_(torch.from_numpy(gguf.quants.dequantize(blocks, type_)))


REFERENCE = "float32"
ONE_ROW, FIVE_ROWS = "bfloat16, torch", "bfloat16, torch, 5 rows"
ARITHMETICS: Mapping[str, Arithmetic] = {
    REFERENCE: Arithmetic(COMPILED),
    "float32, 5 rows": Arithmetic(COMPILED, ROWS),
    "float32, torch": Arithmetic(LEAN),
    "bfloat16 weights": Arithmetic(COMPILED, ROWS, torch.bfloat16),
    "float16, torch": Arithmetic(LEAN, 1, torch.float16),
    ONE_ROW: Arithmetic(LEAN, 1, torch.bfloat16),
    FIVE_ROWS: Arithmetic(LEAN, ROWS, torch.bfloat16),
    "int8 weights": Arithmetic(COMPILED, ROWS, rounded=round_matrices),
    "Q4_1 weights": Arithmetic(COMPILED, ROWS, rounded=partial(round_blocks, kind="Q4_1")),
    "Q4_0 weights": Arithmetic(COMPILED, ROWS, rounded=partial(round_blocks, kind="Q4_0")),
}
"""All arithmetics by name. In float32, the compiled forward pass gives the same logits for 1 row and for 5
rows."""
ROWS_APART = "bfloat16, torch: 1 and 5 rows"
COMPARED = {name: (REFERENCE, name) for name in ARITHMETICS if name != REFERENCE} | {
    ROWS_APART: (ONE_ROW, FIVE_ROWS)
}
"""For each comparison, the two arithmetics that are compared."""
WHOLE = {"float32": REFERENCE, "bfloat16 weights": "bfloat16 weights", "bfloat16, torch": ONE_ROW}
"""The arithmetics in which whole texts are decoded."""


@lru_cache(1)
def _computed_targets(pair: ModelPair) -> dict[str, Model]:
    """The target as a model in each arithmetic, by name."""
    target: Any = pair.target  # a model of transformers, with a module
    prepared, models = prepare(target.module, target.name), dict[str, Any]()
    for name, (kind, _, dtype, rounded) in ARITHMETICS.items():
        module = prepared.module
        if dtype != module.dtype or rounded:
            module = copy.deepcopy(module).to(dtype)  # type: ignore[arg-type]  # a decorator hides it
        if rounded:
            rounded(module)
        models[name] = kind.on(replace(prepared, module=module, dtype=module.dtype))
    return models


@torch.inference_mode()
def measured(pair: ModelPair, text: Text) -> Row:
    """Sums over a text's tokens for each comparison; and whether whole texts with the text's seed differ."""
    models = _computed_targets(pair)
    log_p = {
        name: scored(models[name], text.ids, text.start, pair, Sampling(), each.rows)
        for name, each in ARITHMETICS.items()
    }
    count = len(text.ids) - text.start
    races = log_exponentials(derived_seed(text.seed, 1), range(count * RACES), pair.vocab_size)
    races = races.view(count, RACES, -1)
    winners = {name: (races - each[:, None].double()).argmin(-1) for name, each in log_p.items()}
    by = {}
    for name, (first, second) in COMPARED.items():
        p, q = log_p[first].double().exp(), log_p[second].double().exp()
        by_token = {
            "distance": theory.total_variation(p, q),
            "bound": 1 - theory.ersd_total_variation_bound(p, q),
            "expected": parting.race_parting(p, q),
            "parted": (winners[first] != winners[second]).double().mean(1),
            "greedy": parting.greedy_parting(p, q),
            "independent": parting.independent_parting(p, q),
        }
        by[name] = {field: float(values.sum()) for field, values in by_token.items()}
    by_model = {name: _compared(pair, models[each], text) for name, each in WHOLE.items()}
    return {"tokens": count, "by": by, "whole": by_model}


def _compared(pair: ModelPair, model: Model, text: Text) -> Row:
    """Compares a text of plain decoding with that of ERSD on sequence(4), both in one arithmetic.

    tokens: the number of tokens up to and including the first difference. expected: the sum of
    `parting.race_parting` over these tokens. Its mean over texts is the probability that two texts differ.
    """
    same = ModelPair(model, pair.draft, pair.tokenizer)
    settings: dict[str, Any] = {"max_new_tokens": len(text.ids) - text.start, "seed": text.seed}
    prompt = text.ids[: text.start]
    plain = generate(same, prompt, method="ar", **settings).token_ids
    ours = generate(same, prompt, method="ersd", topology=sequence(ROWS - 1), **settings).token_ids
    place = first_difference(plain, ours)
    tokens = len(plain) if place is None else place + 1
    ids = [*prompt, *plain[:tokens]]
    p, q = (scored(model, ids, text.start, pair, Sampling(), rows).double().exp() for rows in (1, ROWS))
    expected = float(parting.race_parting(p, q).sum())
    return {"different": place is not None, "tokens": tokens, "expected": expected}


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """The index of the first token that differs, or that only one text has; None if the texts are equal."""
    return next((i for i, (x, y) in enumerate(zip_longest(a, b)) if x != y), None)


def summary(runs: Mapping[str, Sequence[Row]]) -> Row:
    """`points` has a row for each pair and comparison of arithmetics. `whole` has a row for each pair and
    each arithmetic in which whole texts were decoded."""
    points = [
        {"pair": pair, "compared": name, "tokens": sum(run["tokens"] for run in some)}
        | {field: quotient([run | run["by"][name] for run in some], field) for field in some[0]["by"][name]}
        for pair, some in runs.items()
        for name in COMPARED
    ]
    texts = [
        {"pair": pair, "arithmetic": name} | _counts([run["whole"][name] for run in some])
        for pair, some in runs.items()
        for name in WHOLE
    ]
    return {"races": RACES, "points": points, "whole": texts}


def _counts(texts: Sequence[Row]) -> Row:
    """Counts over texts. per_text: the rate of differing texts and the ends of Wilson's 95% interval."""
    sums = {name: sum(text[name] for text in texts) for name in ("different", "tokens", "expected")}
    counts = IndexAcceptance(0, accepted=sums["different"], offered=len(texts))
    low, high = counts.interval()
    return {"texts": len(texts)} | sums | {"per_text": {"value": counts.rate, "low": low, "high": high}}


EXPERIMENT = TextExperiment(
    name="experiments.rounding",
    about="Measure how often rounding changes a token, and bound it.",
    measured=measured,
    summary=summary,
)

if __name__ == "__main__":
    EXPERIMENT.main()
