"""openvino-genai among the contestants, where it is installed: plainly, and with the draft at its best k."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from specdec.bench.contestants import Contestant, Sample, Workload
from specdec.bench.measure import fastest
from specdec.models.openvino import BACKENDS, PRECISIONS, Pipeline, convert_pair
from specdec.pair import ModelPair
from specdec.probs import Sampling

PLAIN, DRAFTED = "openvino-genai autoregressive", "openvino-genai with a draft"
Folders = Mapping[str, Sequence[str]]
"""By dtype: of the converted target, and of the converted draft where there is one."""


def folders(given: Sequence[str], pairs: Mapping[str, ModelPair], place: Path) -> Folders:
    """Those given, of a target and perhaps a draft; where none are, the pairs are converted into `place`.

    pairs: by dtype. ValueError where that can't be.
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
    if given:
        return dict.fromkeys(dtypes, given)
    return {name: convert_pair(pairs[name], place / name) for name in dtypes}


def openvino(pipeline: Pipeline, sampling: Sampling, k: int = 0) -> Callable[[Workload], Sample]:
    """Its decoding. k: drafted tokens, of a pipeline with a draft."""

    def run(job: Workload) -> Sample:
        start, cpu_start = time.perf_counter(), time.process_time()
        said = pipeline.generate(
            job.prompt_ids,
            seed=job.seed,
            max_new_tokens=job.tokens,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            k=k,
            endless=True,
        )
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
        return Sample(seconds, cpu_seconds, len(said.token_ids), said.target_calls, None)

    return run


def chosen_openvino(
    folders: Folders,
    threads: Sequence[int],
    ks: Sequence[int],
    sampling: Sampling,
    jobs: Sequence[Workload],
) -> tuple[list[Contestant], dict[str, dict[str, float]]]:
    """Each at its best of dtype, backend and threads, the drafted one of dtype and k on as many threads; and
    tokens per second of all that was tried, by name."""
    candidates = [
        Contestant(
            f"{dtype}, {n} thread(s), {backend}",
            "openvino",
            dtype,
            n,
            openvino(Pipeline(found[0], threads=n, dtype=dtype, backend=backend), sampling),
        )
        for dtype, found in folders.items()
        for n in threads
        for backend in BACKENDS
    ]
    plain, rates = fastest(candidates, jobs)
    contestants, tried = [plain._replace(name=PLAIN)], {PLAIN: rates}
    drafting = {
        dtype: Pipeline(*found, threads=plain.threads, dtype=dtype)
        for dtype, found in folders.items()
        if len(found) > 1
    }
    runs = {
        f"{dtype}, k = {k}": (k, Contestant(f"{dtype}, k = {k}", "openvino", dtype, plain.threads, run))
        for dtype, pipeline in drafting.items()
        for k in ks
        for run in [openvino(pipeline, sampling, k)]
    }
    if runs:
        best, tried[DRAFTED] = fastest([each for _, each in runs.values()], jobs)
        contestants.append(best._replace(name=f"{DRAFTED}, k = {runs[best.name][0]}"))
    return contestants, tried
