"""Speed of a model with a recurrent or convolution state: `python -m research.bench.states --family lfm2`.

A target of about 65 M random parameters and a small Llama draft share embedding and head. The output of the
target's layers is scaled until drafted tokens are accepted as often as requested. Plain decoding, ERSD and
GSD over sequences decode in turns, so that other work on the machine slows all alike.
"""

from __future__ import annotations

import math
import timeit
from collections.abc import Sequence
from dataclasses import replace
from statistics import median, quantiles
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel

from research.bench.synthetic import SPREAD, TEXT, calibrate, random_model
from specdec.bench.contestants import Contestant, Workload, ours
from specdec.bench.measure import interleaved
from specdec.checks import whole
from specdec.commands import Parser, columns, ended
from specdec.models import HFModel
from specdec.models.load import DTYPES
from specdec.models.sessions.states import StateSession, copied
from specdec.pair import ModelPair
from specdec.probs import Sampling
from specdec.topology import sequence

WIDTH, DRAFT_WIDTH, VOCABULARY = 640, 320, 16384
_SIZES = {
    "vocab_size": VOCABULARY,
    "num_attention_heads": 10,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}
_TARGET = _SIZES | {"hidden_size": WIDTH, "intermediate_size": 1792, "num_key_value_heads": 5}
_DRAFT = {"hidden_size": DRAFT_WIDTH, "intermediate_size": 1024, "num_hidden_layers": 2, "head_dim": 32}
_LINEAR = {"linear_num_key_heads": 10, "linear_num_value_heads": 10}
_LINEAR |= {"linear_key_head_dim": 64, "linear_value_head_dim": 64}
_MAMBA = {"mamba_d_ssm": 1280, "mamba_n_heads": 20, "mamba_d_head": 64, "mamba_d_state": 64}
_LAYERS = {
    "lfm2": ["conv", "conv", "full_attention"] * 3,
    "qwen3_5": (["linear_attention"] * 3 + ["full_attention"]) * 2,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "lfm2": ("Lfm2", {"layer_types": _LAYERS["lfm2"], "block_auto_adjust_ff_dim": False}),
    "qwen3_5": ("Qwen3_5Text", {"layer_types": _LAYERS["qwen3_5"], "head_dim": 64} | _LINEAR),
    "falcon_h1": ("FalconH1", {"num_hidden_layers": 7} | _MAMBA),
}
"""Class prefix and sizes of each family."""
OUTPUTS = ("out_proj", "o_proj", "down_proj", "w2")
"""Matrices at the end of a layer's parts, whose output is added to the residual stream."""


def hybrid_pair(family: str, dtype: torch.dtype, acceptance: float) -> tuple[ModelPair, float]:
    """A pair with a target of this family, and the acceptance that it reached (GSD's, of the first token)."""
    torch.manual_seed(0)
    prefix, entries = FAMILIES[family]
    entries = _TARGET | {"num_hidden_layers": len(entries.get("layer_types", ()))} | entries
    target = _random_model(prefix, entries)
    draft = _random_model("Llama", _SIZES | _DRAFT)
    with torch.no_grad():
        for weight in _outputs(draft):
            weight.mul_(0.1)
        draft.lm_head.weight.mul_(math.sqrt(SPREAD * math.log(VOCABULARY)))
        for name in ("get_input_embeddings", "get_output_embeddings"):
            wide, narrow = getattr(target, name)().weight, getattr(draft, name)().weight
            wide.zero_()[:, :DRAFT_WIDTH] = narrow
        # The norm before the head divides by a smaller number in the wider stream, half of which is zeros.
        target.get_output_embeddings().weight.mul_(math.sqrt(DRAFT_WIDTH / WIDTH))
    token_ids = torch.randint(1, VOCABULARY, (1, TEXT))
    reached = calibrate(target, draft, _outputs(target), token_ids, acceptance)
    wrapped = HFModel(target, f"{family}, {target.num_parameters() / 1e6:.0f} M parameters")
    if wrapped.capability == "ar":
        raise ValueError(wrapped.capability_reason)
    # In half precision the check would prove nothing, because these logits depend little on any token but the
    # last.
    wrapped.module.to(dtype)  # type: ignore[arg-type]  # transformers' decorator hides a method
    wrapped._prepared = replace(wrapped._prepared, dtype=dtype)
    draft.to(dtype)  # type: ignore[arg-type]
    return ModelPair(wrapped, HFModel(draft, "draft")), reached


def measure(pair: ModelPair, lengths: Sequence[int], texts: int, tokens: int) -> list[list[str]]:
    """A table with a row for each setting.

    Its columns are tokens per second and per call, the speed-up over plain decoding with the range of its
    middle half, milliseconds of a round, and the share of a round that the copy of the states takes.
    """
    trees: dict[str, Any] = {f"sequence({k})": sequence(k) for k in lengths} | {"auto": "auto"}
    runs = {"plain": ours(pair, "ar", None, Sampling())} | {
        f"{method} {name}": ours(pair, method, tree, Sampling())
        for method in ("ersd", "gsd")
        for name, tree in trees.items()
    }
    threads = torch.get_num_threads()
    contestants = [Contestant(name, "specdec", "", threads, each) for name, each in runs.items()]
    interleaved(contestants, [Workload([1], 0, 8)])  # "auto" measures its costs here
    samples = interleaved(contestants, [Workload([1 + seed], seed, tokens) for seed in range(texts)])
    copy = median(copy_seconds(pair) for _ in range(texts))
    rows = [["", "tokens/s", "tokens per call", "times plain (middle half)", "ms per round", "copy"]]
    for name, some in samples.items():
        ratios = [plain.seconds / each.seconds for plain, each in zip(samples["plain"], some, strict=True)]
        low, middle, high = quantiles(ratios)
        calls, seconds = sum(each.target_calls for each in some), median(each.seconds for each in some)
        round_seconds = seconds * texts / calls
        rows.append(
            [
                name,
                f"{tokens / seconds:.1f}",
                f"{texts * tokens / calls:.2f}",
                f"{middle:.2f} ({low:.2f} to {high:.2f})",
                f"{1e3 * round_seconds:.1f}",
                f"{copy / round_seconds:.2%}",
            ]
        )
    return rows


@torch.inference_mode()
def copy_seconds(pair: ModelPair) -> float:
    """Seconds of one copy of the target's states. Dropping a copy, which restores them, takes no time."""
    session = pair.target.session()
    assert isinstance(session, StateSession), "a target without states"
    session.prefill(list(range(1, TEXT)))
    _, cache = session._states[-1]
    return timeit.timeit(lambda: copied(cache), number=10) / 10


def _random_model(prefix: str, entries: dict[str, Any]) -> PreTrainedModel:
    config = getattr(transformers, f"{prefix}Config")(**entries)
    kind = getattr(transformers, f"{prefix.removesuffix('Text')}ForCausalLM")
    return random_model(kind, config, torch.float32)


def _outputs(model: PreTrainedModel) -> list[torch.nn.Parameter]:
    return [weight for name, weight in model.named_parameters() if name.split(".")[-2] in OUTPUTS]


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table of measurements. A ValueError is a user's mistake."""
    parser = Parser(prog="python -m research.bench.states", description=__doc__)
    add = parser.add_argument
    add("--family", choices=FAMILIES, default="lfm2", help="architecture of the target (default: lfm2)")
    add("--dtype", choices=DTYPES, default="bfloat16", help="dtype of both models (default: bfloat16)")
    add("--acceptance", type=float, default=0.75, help="of the first drafted token (default: 0.75)")
    add("--lengths", type=int, nargs="*", default=[2, 4], help="lengths of the sequences (default: 2 4)")
    add("--texts", type=int, default=6, help="texts of each setting (default: 6)")
    add("--tokens", type=int, default=96, help="tokens of each text (default: 96)")
    add("--threads", type=int, default=1, help="threads of torch (default: 1)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(whole("threads", options.threads, 1, 1024))
    pair, reached = hybrid_pair(options.family, DTYPES[options.dtype], options.acceptance)
    print(f"{pair.target.name}, {options.dtype}, acceptance {reached:.2f}")
    print(columns(measure(pair, options.lengths, options.texts, options.tokens), markdown=True))


if __name__ == "__main__":
    with ended():
        main()
