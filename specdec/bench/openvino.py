"""openvino-genai as a contestant, where it is installed: alone, and with the draft at its best k."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

from specdec.bench.contestants import Contestant, Sample, Workload
from specdec.bench.measure import fastest
from specdec.models.openvino import BACKENDS, PRECISIONS, Pipeline, convert_pair
from specdec.pair import ModelPair
from specdec.probs import Sampling

PLAIN, DRAFTED = "openvino-genai autoregressive", "openvino-genai with a draft"
TRIES, OTHER_SEED = 3, 1 << 24
Folders = Mapping[str, Sequence[str]]
"""Folders by dtype: the converted target, and the converted draft if there is one."""


def folders(given: Sequence[str], pairs: Mapping[str, ModelPair], place: Path) -> Folders:
    """The given folders of a target and perhaps a draft.

    Without folders, the pairs are converted into `place`.
    pairs: by dtype. ValueError if openvino-genai can't take part.
    """
    missing = [name for name in ("openvino", "openvino_genai", "openvino_tokenizers") if not find_spec(name)]
    if missing:
        raise ValueError(f"openvino: {missing[0]} is not installed; pip install openvino-genai")
    dtypes = [name for name in pairs if name in PRECISIONS]
    if not dtypes or any(pair.target.device.type != "cpu" for pair in pairs.values()):
        raise ValueError(f"openvino: takes part on a CPU, in {' or '.join(PRECISIONS)}")
    absent = [folder for folder in given if not (Path(folder) / "openvino_model.xml").exists()]
    if absent or len(given) > 2:
        raise ValueError(
            f"openvino = {' '.join(absent or given)!r} is no folder of a converted target and draft"
        )
    converted = {name: given or convert_pair(pairs[name], place / name) for name in dtypes}
    answering = {name: models for name, models in converted.items() if answers(models[0], name)}
    if not answering:
        raise ValueError(f"openvino: {dtypes[0]} ended with an error in a process of its own")
    return answering


def answers(folder: str, dtype: str) -> bool:
    """Whether a pipeline of this dtype decodes, tried in another process.

    On a virtual machine with AMX, openvino 2026.4 ends the whole process in bfloat16.
    """
    program = (
        "import sys; from specdec.models.openvino import Pipeline; "
        "Pipeline(sys.argv[1], dtype=sys.argv[2]).generate([0, 1], seed=0, max_new_tokens=2, endless=True)"
    )
    asked = subprocess.run([sys.executable, "-c", program, folder, dtype], capture_output=True, check=False)
    return asked.returncode == 0


def openvino(pipeline: Pipeline, sampling: Sampling, k: int = 0) -> Callable[[Workload], Sample]:
    """Decodes with a pipeline. k: drafted tokens, for a pipeline with a draft.

    Sampling with a draft sometimes ends with an error of openvino-genai. The text is then decoded again with
    another seed, and this repetition is timed.
    """

    def run(job: Workload) -> Sample:
        for seed in (job.seed, *(job.seed + n * OTHER_SEED for n in range(1, TRIES))):
            with suppress(RuntimeError):
                return once(job, seed)
        return once(job, job.seed)

    def once(job: Workload, seed: int) -> Sample:
        start, cpu_start = time.perf_counter(), time.process_time()
        settings: dict[str, Any] = {"seed": seed, "max_new_tokens": job.tokens, "k": k, "endless": True}
        text = pipeline.generate(job.prompt_ids, **settings, **asdict(sampling))
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
        return Sample(seconds, cpu_seconds, len(text.token_ids), text.target_calls, None)

    return run


def chosen_openvino(
    folders: Folders,
    threads: Sequence[int],
    ks: Sequence[int],
    sampling: Sampling,
    jobs: Sequence[Workload],
) -> tuple[list[Contestant], dict[str, dict[str, float]]]:
    """The fastest pipelines without and with a draft, and the tokens per second of all candidates by name.

    The dtype, backend and threads of the one without a draft are chosen. The one with a draft gets the same
    threads, and its dtype and k are chosen.
    """
    candidates = {}
    for dtype, models in folders.items():
        for n, backend in product(threads, BACKENDS):
            pipeline = Pipeline(models[0], threads=n, dtype=dtype, backend=backend)
            candidates[f"{dtype}, {n} thread(s), {backend}"] = dtype, n, openvino(pipeline, sampling)
    plain, rates = fastest("openvino", candidates, jobs)
    contestants, tried = [plain._replace(name=PLAIN)], {PLAIN: rates}
    drafting = {}
    for dtype, models in folders.items():
        if len(models) > 1:
            pipeline = Pipeline(*models, threads=plain.threads, dtype=dtype)
            for k in ks:
                drafting[f"{dtype}, k = {k}"] = dtype, plain.threads, openvino(pipeline, sampling, k)
    if drafting:
        best, tried[DRAFTED] = fastest("openvino", drafting, jobs)
        contestants.append(best._replace(name=f"{DRAFTED}, {best.name.split(', ')[1]}"))
    return contestants, tried
