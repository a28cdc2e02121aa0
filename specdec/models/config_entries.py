"""The entries of a config.json, checked before transformers builds anything from it.

Impossible sizes are refused, because building such a model takes long even without memory for its weights.
Entries that name files or code to load are refused as well.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any

import transformers

from specdec.checks import cause_of

MOST_LAYERS = 1024
"""The most layers that a config may state; the deepest models have some 130."""
MOST_EXPERTS = 1 << 16
"""The most experts in all layers together; the largest models have some 25,000."""
MOST_LABELS = 1 << 15
"""The most labels of a classifier, because transformers writes a name for each. A language model has none."""
_REPEATED = re.compile(
    r"(?:\w+_)?(?:n|num)_(?:\w+_)?(?:layers?|blocks?|stages|stacks?|loops)(?:_per_\w+)?"
    r"|(?:\w+_)?(?:layers|depth|cycles|repeats)"
)
"""Names of entries that say how often a part of the model is repeated, such as `num_hidden_layers`."""
_EXPERTS = re.compile(r"(?:n|num)_(?:local_|routed_)?experts")
_ROWS = ("doge",)
"""`model_type`s whose experts are rows of one table: their number is not limited, as experts cost little."""
_IMPLEMENTATIONS = ("attn_implementation", "experts_implementation")


def check_entries(entries: Any, name: str) -> None:
    """ValueError if entries of a config.json state impossible sizes, or name code or files to load.

    name: the model's name in messages.
    """
    layers: float = 1
    experts: float = 1
    for key, value in all_entries(entries):
        _check_no_code_or_file(key, value, name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        if key.endswith("num_labels"):
            _check_most(MOST_LABELS, name, key, value)
        if _REPEATED.fullmatch(key):
            _check_most(MOST_LAYERS, name, key, value)
            layers = max(layers, value)
        if _EXPERTS.fullmatch(key) and entries.get("model_type") not in _ROWS:
            experts = max(experts, value)
    _check_most(MOST_EXPERTS, name, "experts in all layers", layers * experts)


def _check_most(most: int, name: str, key: str, value: float) -> None:
    if value > most:
        raise ValueError(
            f"{name!r} has a config.json with {key} = {str(value)[:40]}; it must be at most {most:,}"
        )


def _check_no_code_or_file(key: str, value: Any, name: str) -> None:
    if key.lstrip("_").startswith(_IMPLEMENTATIONS) and "/" in str(value):
        # An installed package might load code for this entry from the hub.
        raise ValueError(
            f"{name!r} needs code of its own, which is never run: its config.json has {key} = {value!r}"
        )
    if key == "transformers_weights" and value is not None:
        raise ValueError(
            f"{name!r} has a config.json with {key} = {value!r}; weights are read from model.safetensors "
            "only, or from what model.safetensors.index.json names; pickled ones are never loaded"
        )


def check_quantisation(config: Any, name: str) -> None:
    """ValueError where the weights are quantised in a way that this installation can't read."""
    entry = getattr(config, "quantization_config", None)
    if not entry:
        return
    method = entry.get("quant_method") if isinstance(entry, Mapping) else getattr(entry, "quant_method", None)
    try:
        quantisers = transformers.quantizers.AutoHfQuantizer
        if isinstance(entry, Mapping) and not quantisers.supports_quant_method(dict(entry)):
            raise ValueError("transformers knows no such method")
        quantiser = quantisers.from_config(copy.deepcopy(entry), pre_quantized=True)
        quantiser.validate_environment(device_map=None, weights_only=True)
    except Exception as error:  # a package is missing or too old, there is no GPU, or entries are wrong
        cause = cause_of(error)
        raise ValueError(
            f"{name!r} has quantised weights (quant_method = {str(method)[:40]!r}), which can't be read "
            f"here: {cause}"
        ) from error


def all_entries(entries: Any) -> Iterator[tuple[str, Any]]:
    """All (key, value) pairs, also those of nested dictionaries, such as the parts of a composite model."""
    if not isinstance(entries, Mapping):
        return
    for key, value in entries.items():
        yield key, value
        yield from all_entries(value)
