"""The engines that the audit can examine: functions (prompt, seed, sampling) -> tokens or text."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from http.client import HTTPException
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch

from specdec.checks import among
from specdec.decoding.run import generate
from specdec.exactness.audit.report import RULES
from specdec.exactness.audit.run import Sample
from specdec.exactness.audit.served import SAMPLERS, Server
from specdec.exactness.audit.served import version as server_version
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


def completions(url: str, prompt: str | None = None, seconds: float = SECONDS, **options: Any) -> Counting:
    """A server of the OpenAI completions protocol, or llama.cpp's own. url: its address up to `/v1`.

    llama.cpp returns token ids only at the address without `/v1`. prompt: the text that is sent; None sends
    token ids. seconds: how long an answer may take. options: go into every request, such as `model`.

    The result is the answer's token ids if it has any: `token_ids` (vLLM with return_token_ids) or `tokens`
    (llama.cpp with return_tokens). Otherwise it is the text; an empty list beside a text does not count as
    token ids. ConnectionError with the server's words if it refuses or gives another answer. Forwards are
    counted where the answer says how many drafted tokens were accepted, as llama.cpp's does.
    """

    def sample(
        prompt_ids: Sequence[int], seed: int, max_new_tokens: int, *sampling: float
    ) -> Sequence[int] | str:
        asked = {"prompt": list(prompt_ids) if prompt is None else prompt, "seed": seed}
        asked |= {"max_tokens": max_new_tokens, "return_token_ids": True, "return_tokens": True}
        answer, completion = _completed(f"{url}/completions", asked | _named(sampling) | options, seconds)
        timings = answer.get("timings", {})
        counting.calls += timings.get("predicted_n", 0) - timings.get("draft_n_accepted", 0)
        return completion

    counting = Counting(sample)
    return counting


def _completed(
    address: str, asked: dict[str, Any], seconds: float
) -> tuple[dict[str, Any], Sequence[int] | str]:
    """A server's answer, and the token ids or the text of its first choice."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, json.dumps(asked).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            said = answer.read()
    except urllib.error.HTTPError as error:
        raise ConnectionError(f"{address} refused, {error.code}: {error.read()!r:.200}") from None
    except (OSError, HTTPException) as error:  # no server, a timeout, or an incomplete answer
        raise ConnectionError(f"{address} did not answer: {getattr(error, 'reason', error)}") from None
    try:
        parsed = json.loads(said)
        choice = parsed.get("choices", [parsed])[0]
        listed, text = (choice.get(name) for name in ("token_ids", "tokens")), choice.get("text")
        token_ids = next((entry for entry in listed if entry is not None), None)
        completion = text if token_ids is None or (text and not token_ids) else token_ids
        if isinstance(completion, str | list):
            return parsed, completion
    except (ValueError, LookupError, TypeError, AttributeError):
        pass
    raise ConnectionError(f"{address} answered {said!r:.200}, and no completion")


def llama(url: str, **options: Any) -> Counting:
    """A server of llama.cpp, or one that answers as it does, that samples as it is asked and no further.

    url, options: as in `completions`.
    """
    return completions(url, samplers=SAMPLERS, min_p=0.0, cache_prompt=False, **options)


def served(name: str, pair: ModelPair, slots: int = 1) -> Sample:
    """llama.cpp's server or node-llama-cpp on the pair. slots: texts at once."""
    server = Server(name, pair, slots)
    sample: Any = llama(server.url)
    sample.server = server  # it ends with the sample
    return sample


def openvino(
    folder: str | Path, draft: str | Path | None = None, k: int = 3, precision: str = "f32", batch: int = 1
) -> Sample:
    """openvino-genai on the converted model in this folder.

    draft: folder of a draft; k: its tokens per round. precision and batch: see `Pipeline`.
    """
    pipeline = Pipeline(folder, draft, precision)

    def sample(prompt_ids: Sequence[int], seed: int, max_new_tokens: int, *sampling: float) -> Sequence[int]:
        settings = _named(sampling) | {"seed": seed, "max_new_tokens": max_new_tokens}
        return pipeline.generate(prompt_ids, k=k, batch=batch, **settings)

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


def mlx(pair: ModelPair, drafts: bool, k: int = 3) -> Sample:
    """mlx-lm on the pair. drafts: whether the pair's draft takes part, with k tokens in a round."""
    array, generating, utils = map(import_module, ("mlx.core", "mlx_lm.generate", "mlx_lm.utils"))
    sampler = import_module("mlx_lm.sample_utils").make_sampler

    def loaded(model: Any) -> Any:
        with TemporaryDirectory() as place:
            model.module.save_pretrained(place)
            return utils.load_model(Path(place))[0]

    models = [loaded(model) for model in ((pair.target, pair.draft) if drafts else (pair.target,))]
    step = generating.speculative_generate_step if drafts else generating.generate_step
    options = {"num_draft_tokens": k} if drafts else {}

    def sample(prompt_ids: Sequence[int], seed: int, max_new_tokens: int, *sampling: float) -> Sequence[int]:
        array.random.seed(seed)
        temperature, top_k, top_p = sampling
        options["sampler"] = sampler(temperature, top_p, top_k=top_k)
        steps = list(step(array.array(list(prompt_ids)), *models, max_tokens=max_new_tokens, **options))
        counting.calls += sum(not (drafts and drafted) for *_, drafted in steps)
        return [int(token) for token, *_ in steps]

    counting = Counting(sample)
    return counting


def sequential(pair: ModelPair, rule: str, k: int = 3) -> Sample:
    """sequential-speculative-decoding. rule: "standard", "naive" or "capped"; it knows a temperature only."""
    module, function = {
        "standard": ("standard_sd", "standard_speculative_step"),
        "naive": ("naive_hsd", "naive_hsd_step"),
        "capped": ("capped_hsd", "capped_hsd_step"),
    }[rule]
    step = getattr(import_module(f"seqspecdecod.{module}"), function)
    modules: list[Any] = [getattr(model, "module", None) for model in (pair.draft, pair.target)]
    draft, target = map(_remembering, modules)

    def counted(ids: torch.Tensor) -> Any:
        counting.calls += 1
        return target(ids)

    def sample(prompt_ids: Sequence[int], seed: int, max_new_tokens: int, *sampling: float) -> Sequence[int]:
        temperature, top_k, top_p = sampling
        if top_k or top_p < 1:
            raise ValueError("sequential-speculative-decoding has neither top-k nor top-p")
        ids, length = torch.tensor([list(prompt_ids)]), len(prompt_ids) + max_new_tokens
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            while ids.shape[1] < length:
                ids = step(draft, counted, ids, k, temperature, temperature)[0]
        return ids[0, len(prompt_ids) : length].tolist()

    counting = Counting(sample)
    return counting


def _remembering(module: Any) -> Callable[[torch.Tensor], Any]:
    """The model as a function of ids [1, length], which computes no text twice."""
    computed = lru_cache(maxsize=None)(lambda ids: module(torch.tensor([ids])))
    return lambda ids: computed(tuple(ids[0].tolist()))


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
    batch: int = 1,
) -> Sample:
    """The engine with this name. url: address of a server.

    folders: the converted target and draft for OpenVINO; by default the pair is converted here. drafting:
    transformers' arguments for the draft; by default those of the pair's draft. batch: texts that OpenVINO or
    a server here decodes at once.
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
    if kind == "mlx":
        return mlx(pair, name.endswith("-draft"))
    if kind == "sequential":
        return sequential(pair, method)
    if kind == "openai":
        return completions(url)
    if kind in ("llama.cpp", "node"):
        return served(name, pair, batch)
    with TemporaryDirectory() as place:
        folders = folders or convert_pair(pair, Path(place))
        if method and len(folders) < 2:
            raise ValueError(f"{name}: there is no draft beside {folders[0]}")
        dtype = getattr(getattr(pair.target, "module", None), "dtype", None)
        precision = "bf16" if dtype == torch.bfloat16 else "f32"
        return openvino(folders[0], folders[1] if method else None, precision=precision, batch=batch)


def versions(name: str) -> dict[str, str]:
    """Versions of the packages that this engine uses, and of torch where it computes."""
    kind = name.partition("-")[0]
    if kind in ("llama.cpp", "node"):
        return server_version(kind)
    packages = {
        "ours": ["torch"],
        "openai": [],
        "mlx": ["mlx", "mlx-lm"],
        "sequential": ["sequential-speculative-decoding", "torch"],
        "openvino": ["openvino", "openvino-genai"],
        "onnxruntime": ["onnxruntime", "onnxruntime-genai"],
    }
    return {package: _version(package) for package in packages.get(kind, [kind, "torch"])}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
