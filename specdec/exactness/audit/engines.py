"""The engines that the audit can examine: functions (prompt, seed, sampling) -> tokens or text."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from http.client import HTTPException
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch

from specdec.checks import among
from specdec.decoding.run import generate
from specdec.exactness.audit.report import RULES
from specdec.exactness.audit.run import Sample
from specdec.methods import METHODS
from specdec.models import onnxruntime_genai
from specdec.models.openvino import Pipeline, convert_pair
from specdec.models.other_tokenizer import OtherTokenizerModel
from specdec.topology import Topology, batch, sequence

if TYPE_CHECKING:
    from specdec.pair import ModelPair

SECONDS = 60
"""How long a server may take for one answer."""


class Counting:
    """A `Sample` that counts the target's forwards. calls: how many there were."""

    def __init__(self, sample: Sample):
        self.sample, self.calls = sample, 0

    def __call__(self, *asked: Any) -> Sequence[int] | str:
        """Asks the engine."""
        return self.sample(*asked)


def ours(pair: ModelPair, **options: Any) -> Sample:
    """`specdec.generate` with these options, such as method, topology and drafter."""

    def sample(prompt_ids: Sequence[int], seed: int, max_new_tokens: int, *sampling: float) -> Sequence[int]:
        settings = _named(sampling) | {"seed": seed, "max_new_tokens": max_new_tokens}
        generation = generate(pair, prompt_ids, **settings, **options)
        counting.calls += len(generation.rounds)
        return generation.token_ids

    counting = Counting(sample)
    return counting


def transformers(pair: ModelPair, **options: Any) -> Sample:
    """transformers' `generate` of the target with these options: `assistant_model`, `custom_generate`, ...

    The seed sets torch's generator, whose state is restored afterwards.
    """
    model: Any = getattr(pair.target, "module", None)
    if model is None:
        raise ValueError(f"{pair.target.name} is no model of transformers")

    def sample(prompt_ids: Sequence[int], seed: int, max_new_tokens: int, *sampling: float) -> Sequence[int]:
        ids = torch.tensor([list(prompt_ids)], device=model.device)
        settings = {"do_sample": True} | _named(sampling) if sampling[0] > 0 else {"do_sample": False}
        settings |= {"max_new_tokens": max_new_tokens, "pad_token_id": 0}
        with torch.inference_mode(), torch.random.fork_rng():
            torch.manual_seed(seed)
            hook = model.register_forward_hook(count)
            try:
                output = model.generate(ids, attention_mask=torch.ones_like(ids), **settings, **options)
            finally:
                hook.remove()
        return output[0, ids.shape[1] :].tolist()

    def count(module: Any, *_: Any) -> None:
        if module.config.get_text_config().num_hidden_layers == layers:  # a draft by early exit has fewer
            counting.calls += 1

    counting, layers = Counting(sample), model.config.get_text_config().num_hidden_layers
    return counting


def assisted(pair: ModelPair, k: int = 3) -> Sample:
    """transformers' assisted generation with the pair's draft, k drafted tokens in every round."""
    if getattr(pair.draft, "module", None) is None:
        raise ValueError("assisted generation needs a draft of transformers, and this pair has none")
    arguments = assisting(pair)
    draft_exactly(arguments["assistant_model"], k)
    return transformers(pair, **arguments)


def assisting(pair: ModelPair) -> dict[str, Any]:
    """transformers' arguments for the pair's draft.

    A draft with another tokenizer is given as a copy, with both tokenizers, because transformers replaces its
    embedding and its output when it samples.
    """
    draft: Any = pair.drafting
    if not isinstance(draft, OtherTokenizerModel):
        return {"assistant_model": draft.module}
    tokenizers = {"tokenizer": pair.tokenizer, "assistant_tokenizer": draft.tokenizer}
    return {"assistant_model": _copied(draft.module)} | tokenizers


_copied = lru_cache(maxsize=1)(deepcopy)
"""The last copy of a model is kept, so that all contestants with this draft share it."""


def draft_exactly(draft: Any, k: int) -> None:
    """Sets a draft's generation config so that transformers drafts k tokens in every round."""
    config = draft.generation_config
    config.num_assistant_tokens, config.num_assistant_tokens_schedule = k, "constant"
    config.assistant_confidence_threshold = 0.0


def completions(url: str, prompt: str | None = None, **options: Any) -> Sample:
    """A server of the OpenAI completions protocol. url: its address up to `/v1`.

    prompt: the text that is sent; None sends token ids. options: go into every request, such as `model`.

    The result is the answer's token ids if it has any: `token_ids` (vLLM with return_token_ids) or `tokens`
    (llama.cpp with return_tokens). Otherwise it is the text; an empty list beside a text does not count as
    token ids. ConnectionError with the server's words if it refuses or gives another answer.
    """

    def sample(
        prompt_ids: Sequence[int], seed: int, max_new_tokens: int, *sampling: float
    ) -> Sequence[int] | str:
        asked = {"prompt": list(prompt_ids) if prompt is None else prompt, "seed": seed}
        asked |= {"max_tokens": max_new_tokens, "return_token_ids": True, "return_tokens": True}
        return _completed(f"{url}/completions", asked | _named(sampling) | options)

    return sample


def _completed(address: str, asked: dict[str, Any]) -> Sequence[int] | str:
    """Token ids or text of the first choice in a server's answer."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, json.dumps(asked).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            said = answer.read()
    except urllib.error.HTTPError as error:
        raise ConnectionError(f"{address} refused, {error.code}: {error.read()!r:.200}") from None
    except (OSError, HTTPException) as error:  # no server, a timeout, or an incomplete answer
        raise ConnectionError(f"{address} did not answer: {getattr(error, 'reason', error)}") from None
    try:
        choice = json.loads(said)["choices"][0]
        listed, text = (choice.get(name) for name in ("token_ids", "tokens")), choice.get("text")
        token_ids = next((entry for entry in listed if entry is not None), None)
        completion = text if token_ids is None or (text and not token_ids) else token_ids
        if isinstance(completion, str | list):
            return completion
    except (ValueError, LookupError, TypeError, AttributeError):
        pass
    raise ConnectionError(f"{address} answered {said!r:.200}, and no completion")


def openvino(folder: str | Path, draft: str | Path | None = None, k: int = 3) -> Sample:
    """openvino-genai on the converted model in this folder.

    draft: folder of a draft; k: its tokens per round.
    """
    pipeline = Pipeline(folder, draft)

    def sample(prompt_ids: Sequence[int], seed: int, max_new_tokens: int, *sampling: float) -> Sequence[int]:
        settings = _named(sampling) | {"seed": seed, "max_new_tokens": max_new_tokens}
        return pipeline.generate(prompt_ids, k=k, **settings)

    return sample


def onnxruntime(pair: ModelPair, drafts: bool, k: int = 3) -> Sample:
    """onnxruntime-genai on the pair, which is converted here.

    drafts: whether the pair's draft takes part, with k tokens in a round.
    """
    with TemporaryDirectory() as place:
        pipeline = onnxruntime_genai.Pipeline(pair, Path(place), k if drafts else 0)

    def sample(prompt_ids: Sequence[int], seed: int, max_new_tokens: int, *sampling: float) -> Sequence[int]:
        settings = _named(sampling) | {"seed": seed, "max_new_tokens": max_new_tokens}
        token_ids, calls = pipeline.generate(prompt_ids, **settings)
        counting.calls += calls
        return token_ids

    counting = Counting(sample)
    return counting


def _named(sampling: Sequence[float]) -> dict[str, Any]:
    """The last arguments of a `Sample`, by name."""
    return dict(zip(("temperature", "top_k", "top_p"), sampling, strict=True))


NAMES = tuple(RULES)
"""The engines that the command knows."""


def tree_of(method: str) -> Topology:
    """The tree of our method in an audit.

    On a sequence, methods with independent draws decide like GSD; a batch shows the difference.
    """
    return batch(4) if METHODS[method].independent else sequence(4)


def engine(
    name: str,
    pair: ModelPair,
    url: str = "",
    folders: Sequence[str] = (),
    drafting: Mapping[str, Any] | None = None,
) -> Sample:
    """The engine with this name. url: address of a server.

    folders: the converted target and draft for OpenVINO; by default the pair is converted here. drafting:
    transformers' arguments for the draft; by default those of the pair's draft.
    """
    among("engine", name, NAMES)
    kind, _, method = name.partition("-")
    if kind == "ours":
        return ours(pair, method=method, topology=tree_of(method))
    if name == "transformers":
        return transformers(pair)
    if name == "transformers-prompt-lookup":
        return transformers(pair, prompt_lookup_num_tokens=3)
    if kind == "transformers":
        return assisted(pair) if drafting is None else transformers(pair, **drafting)
    if kind == "onnxruntime":
        return onnxruntime(pair, drafts=bool(method))
    if kind == "openai":
        return completions(url)
    with TemporaryDirectory() as place:
        folders = folders or convert_pair(pair, Path(place))
        if method and len(folders) < 2:
            raise ValueError(f"{name}: there is no draft beside {folders[0]}")
        return openvino(folders[0], folders[1] if method else None)


def versions(name: str) -> dict[str, str]:
    """Versions of the packages that this engine uses, and of torch where it computes."""
    kind = name.partition("-")[0]
    packages = {
        "ours": ["torch"],
        "openai": [],
        "openvino": ["openvino", "openvino-genai"],
        "onnxruntime": ["onnxruntime", "onnxruntime-genai"],
    }
    return {package: _version(package) for package in packages.get(kind, [kind, "torch"])}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
