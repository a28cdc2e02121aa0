"""Speculative decoding as a decoding loop of transformers' `generate`.

    target.generate(**inputs, custom_generate=specdec.custom_generate, assistant_model=draft, seed=0)

The loop does what transformers' own loop (`GenerationMixin._sample`) does: it appends one token to each row
of the batch, then calls the stopping criteria and the streamer. The tokens of each row come from a run of
speculative decoding, which may already have decoded some further tokens.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList, PreTrainedModel, StoppingCriteriaList
from transformers.generation import BaseStreamer

from specdec.checks import whole
from specdec.drafters import NGram
from specdec.ecosystem.arguments import UNASKED_TOKENS, check_supported, hand_over, prompts_of
from specdec.ecosystem.output import SpeculativeOutput
from specdec.ecosystem.processors import check_processors
from specdec.ecosystem.requests import Rows
from specdec.ecosystem.wrapped import wrapped_pair
from specdec.probs import Sampling
from specdec.race import checked_seed, derived_seed
from specdec.settings import RunSettings
from specdec.topology import Topology, sequence

if TYPE_CHECKING:
    from specdec.context import ContextTree


def custom_generate(
    model: PreTrainedModel,
    input_ids: Tensor,
    logits_processor: LogitsProcessorList,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    synced_gpus: bool = False,
    streamer: BaseStreamer | None = None,
    *,
    assistant_model: PreTrainedModel | None = None,
    draft: PreTrainedModel | None = None,
    tokenizer: Any = None,
    assistant_tokenizer: Any = None,
    method: str = "ersd",
    topology: Topology | ContextTree | str | None = None,
    seed: int | Sequence[int] | None = None,
    **model_kwargs: Any,
) -> SpeculativeOutput | Tensor:
    """Decode inside `generate`. The arguments of `generate` keep their meaning.

    assistant_model: the draft. draft: another name of this argument; with this name, transformers allows
    `num_return_sequences` above 1 and targets with a recurrent state. tokenizer: needed for stop strings, and
    if draft and target score different numbers of tokens. assistant_tokenizer: the draft's, if it differs.
    method, topology: as in `specdec.stream`. seed: determines all randomness. A single seed is the first
    row's, and the seeds of the other rows are derived from it; a list has a seed for each row. None draws
    seeds from torch's generator, which `transformers.set_seed` sets.

    Each row of the batch is decoded as if it were alone. Returns the ids [rows, n] of prompts and new tokens,
    padded on the right, or with `return_dict_in_generate` a `SpeculativeOutput`. A ValueError names an
    argument that is not supported.
    """
    check_supported(generation_config, model_kwargs, synced_gpus)
    prompts = prompts_of(input_ids, model_kwargs)
    drafting = _draft(method, assistant_model, draft, generation_config)
    pair = wrapped_pair(model, drafting, _eos_ids(stopping_criteria), tokenizer, assistant_tokenizer)
    check_processors(logits_processor)
    limit = _limit(generation_config, pair.target.context_length, input_ids.shape[1])
    returns = generation_config.return_dict_in_generate
    settings = RunSettings(
        method,
        limit - input_ids.shape[1],
        Sampling(temperature=1 if generation_config.do_sample else 0),
        drafter="model" if generation_config.prompt_lookup_num_tokens is None else NGram(),
    )
    tree, seeds = _topology(topology, generation_config, drafting), _seeds(seed, len(prompts))
    scored = bool(returns and (generation_config.output_scores or generation_config.output_logits))
    rows = Rows(pair, prompts, logits_processor, settings, tree, seeds, scored)
    parts = logits_processor, stopping_criteria, generation_config, streamer
    sequences, scores, logits = _looped(rows, input_ids, limit, *parts)
    if not returns:
        return sequences
    records = tuple(rows.generations)
    acceptance = tuple(record.acceptance for record in records)
    output: Any = {"sequences": sequences, "scores": scores, "logits": logits}
    return SpeculativeOutput(**output, generations=records, acceptance=acceptance)


hand_over(custom_generate)


Scores = tuple[Tensor, ...] | None
"""An entry [rows, vocabulary] for each new token; None if they were not requested."""


def _looped(
    rows: Rows,
    input_ids: Tensor,
    limit: int,
    processors: Callable[..., Tensor],
    criteria: StoppingCriteriaList,
    config: GenerationConfig,
    streamer: BaseStreamer | None,
) -> tuple[Tensor, Scores, Scores]:
    """transformers' loop: the ids [rows, n] of the prompts and new tokens, scores and logits. limit: of n."""
    stops: Callable[..., Tensor] = criteria
    pad = config._pad_token_tensor if _eos_ids(criteria) else None
    scores: Scores = () if config.return_dict_in_generate and config.output_scores else None
    logits: Scores = () if config.return_dict_in_generate and config.output_logits else None
    unfinished = torch.ones(len(input_ids), dtype=torch.long, device=input_ids.device)
    while unfinished.any() and input_ids.shape[1] < limit:
        active = torch.ones_like(unfinished) if pad is None else unfinished
        tokens = torch.tensor(rows.next_tokens(active.tolist()), device=input_ids.device)  # [rows]
        if scores is not None or logits is not None:
            new = rows.logits().to(torch.float32)  # [rows, vocabulary]
            logits = None if logits is None else (*logits, new.clone())  # processors may change `new`
            scores = None if scores is None else (*scores, processors(input_ids, new))
        if pad is not None:
            tokens = tokens * unfinished + pad.to(tokens.device) * (1 - unfinished)
        input_ids = torch.cat([input_ids, tokens[:, None]], -1)
        unfinished = unfinished & ~stops(input_ids, scores)
        if streamer is not None:
            streamer.put(tokens.cpu())
    if streamer is not None:
        streamer.end()
    return input_ids, scores, logits


def _draft(
    method: str,
    assistant_model: PreTrainedModel | None,
    draft: PreTrainedModel | None,
    config: GenerationConfig,
) -> PreTrainedModel | None:
    """The draft model, or None if there is no draft to use. ValueError if several arguments name a draft."""
    options = {
        "assistant_model": assistant_model,
        "draft": draft,
        "prompt_lookup_num_tokens": config.prompt_lookup_num_tokens,
    }
    if not _only_one(options, "the draft") and method != "ar":
        raise ValueError(f"method = {method!r} needs a draft: give assistant_model, or method = 'ar'")
    result = draft if assistant_model is None else assistant_model
    if not isinstance(result, PreTrainedModel | None):
        raise ValueError(f"draft = {result!r:.60} is not a model in memory; load it with from_pretrained")
    return result


def _only_one(options: Mapping[str, Any], what: str) -> str | None:
    """The name of the only argument that is not None; None if all are. ValueError if several are not None."""
    names = [name for name, value in options.items() if value is not None]
    if len(names) > 1:
        raise ValueError(f"{names[0]} and {names[1]} both set {what}: give one of them")
    return names[0] if names else None


def _eos_ids(criteria: StoppingCriteriaList) -> frozenset[int]:
    """The ids of all tokens that end a text, from the stopping criteria."""
    eos_ids = [each.eos_token_id for each in criteria if hasattr(each, "eos_token_id")]
    return frozenset(token_id for ids in eos_ids for token_id in torch.as_tensor(ids).flatten().tolist())


def _limit(config: GenerationConfig, context_length: int, prompt_length: int) -> int:
    """The largest length of a row in tokens, including its prompt and its padding."""
    if prompt_length >= min(config.max_length, context_length):
        raise ValueError(
            f"the prompt has {prompt_length:,} tokens with its padding, max_length is {config.max_length:,} "
            f"and the target's context {context_length:,}, so no token can be added"
        )
    if config.max_length > context_length:
        logging.warning("texts end at the target's context of %d tokens", context_length)
    return min(config.max_length, context_length)


def _topology(
    topology: Topology | ContextTree | str | None, config: GenerationConfig, draft: PreTrainedModel | None
) -> Topology | ContextTree | str | None:
    """The tree to draft; None leaves the choice to decoding. ValueError if several arguments set it.

    If no argument sets it, the draft's generation configuration may set a number of tokens, as in
    transformers.
    """
    options = {
        "topology": topology,
        "num_assistant_tokens": config.num_assistant_tokens,
        "prompt_lookup_num_tokens": config.prompt_lookup_num_tokens,
    }
    if config.num_assistant_tokens in UNASKED_TOKENS:
        del options["num_assistant_tokens"]
    if name := _only_one(options, "the draft tree"):
        return sequence(whole(name, options[name], 1)) if topology is None else topology
    of_draft = getattr(draft, "generation_config", None)
    tokens = getattr(of_draft, "num_assistant_tokens", None)
    return None if tokens in UNASKED_TOKENS else sequence(tokens)


def _seeds(seed: int | Sequence[int] | None, rows: int) -> list[int]:
    if seed is None:
        return torch.randint(2**53, (rows,)).tolist()
    if isinstance(seed, Sequence):
        if len(seed) != rows:
            raise ValueError(
                f"seed has {len(seed)} values for {rows} rows: give one for each, or one for all"
            )
        return [checked_seed(each) for each in seed]
    first = checked_seed(seed)
    return [first, *(derived_seed(first, row) for row in range(1, rows))]
