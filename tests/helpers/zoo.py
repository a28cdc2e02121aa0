"""A tiny random model of every causal language model that transformers has: is any text silently wrong?

    python -m tests.helpers.zoo --out assets/results/zoo.json

Each type is built from its own default configuration with small sizes, and again with windows, chunks, kept
lengths, long rotary factors and keys that it ignores. The capability that the self-check finds is then
tested. Texts of ERSD on a sequence, on SpecInfer's tree and on a bush, with a drafter that errs in every
round, and texts of autoregressive decoding are compared with texts of the same seeds from plain forward
passes over all text, without a cache, beyond every length that the configuration names. Each row is saved as
soon as it is computed, and saved rows are not computed again.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
import transformers
from transformers import PretrainedConfig, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

import specdec
from specdec.commands import write_json
from specdec.models import HFModel, shrink
from specdec.models.sessions.plain import PlainSession
from specdec.models.shrink import SMALL, context_length, lengths, small_model
from specdec.topology import Topology, sequence, specinfer
from tests.helpers.tiny_checkpoints import noisy

OUT = Path("assets/results/zoo.json")
LENGTH = 28
"""Tokens at which the entries of a variation take effect."""
STEP, ROOM = 6, 24
PROMPT = [5, 11, 17, 23]
SEED = 1
NOISE = 0.02
"""Noise of the draft's weights relative to the target's. With so much noise about half of the draft's tokens
are accepted."""
TREES = {
    "sequence(4)": sequence(4),
    "specinfer(8)": specinfer(8),
    "bush": Topology([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (2, 0), (2, 0, 0)]),
}
NEEDED: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [9, 18, 27]},
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}}
    },
    "dbrx": {
        "attn_config": {"rope_theta": 10000.0, "kv_n_heads": 2, "clip_qkv": 8.0},
        "ffn_config": {"hidden_size": 256, "ffn_hidden_size": 64},
    },
    "deepseek_v2": {"num_experts_per_tok": 6},
    "dots1": {"n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "granitemoehybrid": {"layer_types": (["linear_attention"] * 7 + ["full_attention"]) * 4},
    "lfm2": {"layer_types": ["conv", "full_attention"] * 16},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 16},
    "ministral": {"head_dim": 128},
    "nemotron": {"head_dim": 128, "num_key_value_heads": 8},
    "qwen4_exp_text": {
        "indexer_n_heads": 4,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 256,
        "indexer_budget": 32,
        "indexer_compress_ratio": 4,
    },
}
"""Entries that the default configurations of these types lack."""
LONGROPE = ("llama", "phi3", "phimoe", "qwen2", "mistral", "granite", "olmo2", "cohere", "starcoder2")
STRAY = ("llama", "granite", "olmo2", "iquestcoder", "arcee", "cohere", "gpt_neox", "smollm3", "deepseek_v3")
"""Types that ignore a window in their configuration."""
WINDOWS = ("qwen2", "qwen3", "qwen2_moe", "qwen3_moe", "starcoder2")
WINDOWS += ("exaone4", "olmo3", "exaone_moe", "dots1")


class Variation(NamedTuple):
    """A configuration of a model type in its original size, and the class of its causal language model."""

    name: str
    kind: type[PreTrainedModel]
    config: PretrainedConfig

    def build(self) -> PreTrainedModel:
        """Build the tiny random model. Its lengths differ from those of the self-check's copy. Raises if it
        cannot be built."""
        with patch.multiple(shrink, STEP=STEP, ROOM=ROOM):
            model = small_model(self.kind, self.config)
        model.generation_config.eos_token_id = None  # the text must go on beyond all lengths
        return model


def variations(model_type: str) -> dict[str, Variation]:
    """The variations of a type that are tested, by name. Raises if it has no default configuration."""
    base = CONFIG_MAPPING[model_type](**NEEDED.get(model_type, {}))
    kind = MODEL_FOR_CAUSAL_LM_MAPPING[type(base)]
    kind = kind[0] if isinstance(kind, tuple) else kind
    if kind.config_class is not None and not isinstance(base, kind.config_class):
        base = base.get_text_config(decoder=True)
    text = base.get_text_config(decoder=True)
    if hasattr(text, "is_decoder"):
        text.is_decoder = True
    changes = {"default": {}} | _changes(model_type, text)
    return {name: Variation(name, kind, _changed(base, entries)) for name, entries in changes.items()}


def _changes(model_type: str, text: PretrainedConfig) -> dict[str, dict[str, Any]]:
    changes: dict[str, dict[str, Any]] = {}
    if model_type in STRAY:
        changes["stray sliding_window"] = {"sliding_window": LENGTH}
    if model_type in LONGROPE:
        changes["longrope"] = _longrope(text)
    if model_type in WINDOWS:
        kinds = ["sliding_attention", "full_attention"] * (text.num_hidden_layers // 2)
        changes["window"] = {"sliding_window": LENGTH, "use_sliding_window": True, "layer_types": kinds}
    if model_type == "llama4_text":
        changes["chunk of 16"] = {"attention_chunk_size": SMALL}
    if model_type == "doge":
        changes["kept length"] = {"keep_window_size": LENGTH}
    return changes


def examine(model: PreTrainedModel) -> dict[str, Any]:
    """The self-check's result, and the number of texts and tokens that differ from those of plain forward
    passes."""
    start = time.process_time()
    target = HFModel(model, name=model.config.model_type)
    seconds = time.process_time() - start
    draft = None if target.capability == "ar" else HFModel(noisy(model, NOISE))
    result = {
        "capability": target.capability,
        "reason": target.capability_reason,
        "check_processor_seconds": round(seconds, 3),
        "lengths": sorted(lengths(target.config)),
    }
    return result | compared(specdec.ModelPair(target, draft), specdec.ModelPair(PlainModel(target)))


class PlainModel:
    """A model without a cache: each token needs a forward pass over the whole text."""

    capability = "ar"
    most_repeated = 0

    def __init__(self, model: HFModel):
        self._model = model
        self.name, self.vocab_size, self.device = model.name, model.vocab_size, model.device
        self.context_length = model.context_length

    def session(self) -> PlainSession:
        """A new session without a cache."""
        return PlainSession(self._model)


class Misleading:
    """A drafter that proposes the right text up to a wrong token: after 0, 1, 2, ... right tokens, in
    turn."""

    def __init__(self, text_ids: list[int]):
        self._text_ids, self._rounds = text_ids, 0

    def propose(self, text_ids: Sequence[int], topology: Topology) -> list[list[int]]:
        """One continuation of the text, with as many tokens as the topology is deep."""
        right = self._text_ids[len(text_ids) :][: topology.depth]
        place = self._rounds % (topology.depth + 1)
        self._rounds += 1
        return [[*right[:place], *(token ^ 1 for token in right[place:])]]


def compared(pair: specdec.ModelPair, plain: specdec.ModelPair) -> dict[str, Any]:
    """Tokens per method, those that differ from plain forward passes, and tokens per target call."""
    context = context_length(pair.target.config)
    longest = max(lengths(pair.target.config), default=SMALL)
    settings = {"max_new_tokens": min(context, longest + ROOM) - len(PROMPT)}
    want = specdec.generate(plain, PROMPT, method="ar", seed=SEED, **settings).token_ids
    ways: dict[str, dict[str, Any]] = {"ar": {"method": "ar"}}
    if pair.target.capability != "ar":
        trees = TREES if pair.target.capability == "tree" else {"sequence(4)": TREES["sequence(4)"]}
        ways |= {name: {"method": "ersd", "topology": tree} for name, tree in trees.items()}
        ways["rejections"] = ways["sequence(4)"] | {"drafter": Misleading([*PROMPT, *want])}
    runs = {name: specdec.generate(pair, PROMPT, seed=SEED, **settings, **way) for name, way in ways.items()}
    return {
        "texts": 1,
        "tokens": len(want),
        "tokens_per_call": {name: round(len(want) / run.num_target_calls, 2) for name, run in runs.items()},
        "deviating_texts": {name: int(run.token_ids != want) for name, run in runs.items()},
    }


def rows(types: list[str], keys: set[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """A row for each missing variation of each type. If a model cannot be built, its row gives the reason."""
    for model_type in types:
        try:
            built = variations(model_type)
        except Exception as error:
            built = {"default": error}
        for name, variation in built.items():
            if (model_type, name) not in keys:
                yield {"type": model_type, "variation": name} | row(variation)


def row(variation: Variation | Exception) -> dict[str, Any]:
    """The row of a variation. An exception is the reason why its type could not be built."""
    if isinstance(variation, Exception):
        return {"skipped": _said(variation)}
    try:
        model = variation.build()
        result = {"class": type(model).__name__, "parameters": model.num_parameters()}
        return result | examine(model)
    except Exception as error:
        return {"skipped": _said(error)}


def table(all_rows: list[dict[str, Any]]) -> str:
    """The summary in Markdown: the capabilities of the types, deviating texts, and types that could not be
    built."""
    built = [row for row in all_rows if "capability" in row]
    lines = ["| | types | configurations | texts | tokens | deviating texts |", "|---|---|---|---|---|---|"]
    for capability in ("tree", "sequence", "ar"):
        some = [row for row in built if row["capability"] == capability]
        texts = sum(row["texts"] * len(row["deviating_texts"]) for row in some)
        tokens = sum(row["tokens"] * len(row["deviating_texts"]) for row in some)
        wrong = sum(sum(row["deviating_texts"].values()) for row in some)
        types = len({row["type"] for row in some})
        lines.append(f"| {capability} | {types} | {len(some)} | {texts:,} | {tokens:,} | {wrong} |")
    count = len({row["type"] for row in all_rows})
    lines += ["", f"Built: {len({row['type'] for row in built})} of {count} types."]
    lines += [f"- deviates: {_named(row)}: {_wrong(row)}" for row in built if _wrong(row)]
    lines += [f"- forwards over all text: {_named(row)}" for row in built if "all text" in row["reason"]]
    lines += [f"- not tried: {_named(r)}: {r['skipped']}" for r in all_rows if "skipped" in r]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=OUT, help="the file of results, which are added to it")
    parser.add_argument("--types", nargs="*", help="only these model types; all where none is given")
    parser.add_argument("--summary", action="store_true", help="only print the table of what is there")
    arguments = parser.parse_args()
    _quiet()
    old_rows = json.loads(arguments.out.read_text())["rows"] if arguments.out.exists() else []
    if not arguments.summary:
        types = arguments.types or sorted(config.model_type for config in MODEL_FOR_CAUSAL_LM_MAPPING)
        for row in rows(types, {(row["type"], row["variation"]) for row in old_rows}):
            result = row.get("capability") or row.get("skipped")
            print(row["type"], row["variation"], result, _wrong(row), flush=True)
            old_rows.append(row)
            versions = {"transformers": transformers.__version__, "torch": torch.__version__}
            write_json(arguments.out, {"versions": versions, "rows": old_rows})
    print(table(old_rows))


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


def _changed(config: PretrainedConfig, entries: dict[str, Any]) -> PretrainedConfig:
    changed = copy.deepcopy(config)
    for name, value in entries.items():
        setattr(changed.get_text_config(decoder=True), name, value)
    return changed


def _longrope(config: PretrainedConfig) -> dict[str, Any]:
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    count = int(size * config.rope_parameters.get("partial_rotary_factor", 1.0)) // 2
    parameters = config.rope_parameters | {
        "rope_type": "longrope",
        "short_factor": [1.0 + 0.02 * i for i in range(count)],
        "long_factor": [2.0 + 0.1 * i for i in range(count)],
        "original_max_position_embeddings": LENGTH,
        "factor": 4.0,
        "short_mscale": 1.1,
        "long_mscale": 1.3,
    }
    return {"rope_parameters": parameters, "original_max_position_embeddings": LENGTH}


def _named(row: dict[str, Any]) -> str:
    return f"{row['type']}, {row['variation']}"


def _wrong(row: dict[str, Any]) -> str:
    return " ".join(f"{name} {n} wrong" for name, n in row.get("deviating_texts", {}).items() if n)


def _quiet() -> None:
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()


if __name__ == "__main__":
    main()
