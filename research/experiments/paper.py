"""The paper's experiment: counts in decoded texts, acceptance at some positions, and the command."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from research.estimates import Row
from research.experiments.comparison import decoded
from research.experiments.plan import CONTEXTS, Plan
from research.experiments.settings import METHODS, STRATEGIES, Settings, read_prompts, seed_of
from research.experiments.summary import summarize
from research.experiments.sweep import Experiment, Sweep
from research.experiments.texts import Text, distributions
from specdec import Generation, ModelPair, Topology, generate, stream, theory
from specdec.checks import whole
from specdec.commands import Parser, add_pair
from specdec.decoding.run import Run
from specdec.devices import machine
from specdec.loading import load_with_progress
from specdec.phrases import VERDICTS
from specdec.shipped import PROMPTS
from specdec.stats import index_counts


def sweep_of(pair: ModelPair, settings: Settings, at_once: int = 1) -> Sweep:
    """The sweep of the paper's experiment. `at_once` texts are decoded together.

    The first runs measure acceptance by index, from which the optimal trees of all later runs are built. The
    seconds in a row are the full times of the text's rounds, although other texts share these rounds.
    """
    trees: dict[str, Topology] = {}

    def cells(rows: Sequence[Row]) -> list[Row]:
        plan = Plan(settings, rows)
        trees.update({item.tree: item.topology for item in plan.planned})
        return plan.cells()

    def run(cell: Row) -> Run:
        text = text_of(settings, cell)
        return stream(pair, method=cell["method"], topology=trees[cell["tree"]], detail=False, **text)

    def measure(cells: Sequence[Row]) -> Iterator[Row]:
        texts = [cell for cell in cells if cell["method"] != CONTEXTS]
        for cell, finished_run in decoded(pair, texts, run, at_once):
            yield cell | {"seed": finished_run.seed} | counts(finished_run.generation, trees[cell["tree"]])
        for cell in cells:
            if cell["method"] == CONTEXTS:
                yield cell | contexts(pair, settings, cell)

    return Sweep(header(pair, settings), cells, measure)


def header(pair: ModelPair, settings: Settings) -> Row:
    """The first line of a results file: settings, models and versions."""
    models: Row = {"target": pair.target.name, "draft": pair.drafting.name, "vocab_size": pair.vocab_size}
    for name in ("target", "draft"):
        module = getattr(getattr(pair, name), "module", None)
        dtype = str(getattr(module, "dtype", torch.float64)).removeprefix("torch.")
        models |= {f"{name}_dtype": dtype, f"{name}_weights": _fingerprint(module)}
    versions = machine(pair.target.device) | {"numpy": np.__version__}
    versions["device"] = versions.get("gpu", str(pair.target.device))
    return {"settings": settings.to_json(), "pair": models, "versions": versions}


def _fingerprint(module: torch.nn.Module | None) -> str:
    """A hash of the model's vectors (norms and biases), which every training changes."""
    digest = hashlib.sha256()
    for parameter in () if module is None else module.parameters():
        if parameter.dim() == 1 and not parameter.is_meta:
            digest.update(parameter.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()[:12]


def text_of(settings: Settings, cell: Row) -> dict[str, Any]:
    """The arguments of `stream` for the text of a cell; they do not depend on method and tree."""
    return {
        "prompt": settings.prompts[cell["prompt"]],
        "max_new_tokens": settings.max_new_tokens,
        **asdict(settings.sampling),
        "seed": seed_of(settings.seed, cell["prompt"], cell["repeat"]),
    }


def counts(generation: Generation, topology: Topology) -> Row:
    """The counts of a run, for its line in the results file.

    tokens, rounds: numbers for the whole text. lengths[n]: the number of rounds that emitted n tokens,
    without rounds near the text's end, whose trees were cut. offered, reached, accepted: as in
    `specdec.stats.IndexCounts`. seconds: the time of all rounds.
    """
    lengths: Counter[int] = Counter()
    for each in generation.rounds:
        depth = len(each.nodes[-1].path) if each.nodes else 0
        lengths.update([len(each.tokens)] if depth == topology.depth else [])
    return {
        "tokens": len(generation.token_ids),
        "rounds": len(generation.rounds),
        "finish": generation.rounds[-1].finish,
        "lengths": [lengths[n] for n in range(max(lengths, default=-1) + 1)],
        **index_counts(generation.rounds, topology)._asdict(),
        "seconds": round(generation.seconds, 3),
    }


def contexts(pair: ModelPair, settings: Settings, cell: Row) -> Row:
    """Acceptance by index, its entropy, and D_KL, each summed over some positions of one text of the target.

    Entropies and D_KL are in bits. The probability that a position's acceptances lack to 1 counts as one more
    outcome.
    """
    g, k = generate(pair, **text_of(settings, cell), method="ar"), max(settings.batch)
    room, start = min(pair.target.context_length, pair.drafting.context_length), len(g.prompt_ids)
    text = Text(cell["prompt"], [*g.prompt_ids, *g.token_ids][:room], start, g.seed)
    length, parts = len(text.ids) - start, 2 * settings.positions
    moments = sorted({number * length // parts for number in range(1, parts, 2)})
    p, q = (each[moments] for each in distributions(pair, text, settings.sampling))
    kl = float(theory.kl_divergence(p, q).sum())
    row: Row = {"seed": g.seed, "tokens": len(g.token_ids), "positions": len(p), "k": k}
    row["kl"] = kl if math.isfinite(kl) else None  # JSON has no infinity
    for method in METHODS:
        rates = getattr(theory, f"{method}_acceptance_by_index")(p, q, k)
        outcomes = torch.cat([rates, (1 - rates.sum(-1, keepdim=True)).clamp_min(0)], -1)
        # simulated rates may sum to a little more than 1
        bits = theory.entropy(outcomes / outcomes.sum(-1, keepdim=True))
        acceptance = [round(x, 6) for x in rates.sum(0).tolist()]
        row[method] = {"acceptance": acceptance, "entropy": float(bits.sum())}
    return row


def _grid(text: str) -> tuple[int, ...]:
    return tuple(int(k) for k in text.split(",") if k)


_GIVEN = [field for field in fields(Settings) if field.name != "prompts"]


class Paper(Experiment):
    """The paper's experiment on any pair of models; its summary checks the paper's findings."""

    def parser(self) -> Parser:
        """The options of the command."""
        parser = super().parser()
        add = parser.add_argument
        add_pair(parser, "hub id, folder or GGUF file; without, the embedded pair")
        add("--prompts", type=Path, default=PROMPTS, help="a text file, one prompt a line")
        for each in _GIVEN:
            lists_ks = each.name in STRATEGIES
            kind: Any = _grid if lists_ks else type(each.default)
            sentence = f"k of {each.name}, with commas" if lists_ks else " "
            add("--" + each.name.replace("_", "-"), type=kind, default=each.default, help=sentence)
        together = "texts decoded together: the same numbers, sooner"
        add("--runs-at-once", type=int, default=1, metavar="N", help=together)
        return parser

    def sweep(self, options: Any) -> Sweep:
        """The sweep for the pair and the settings that the options describe."""
        at_once, prompts = whole("runs-at-once", options.runs_at_once, 1), read_prompts(options.prompts)
        values = {each.name: getattr(options, each.name) for each in _GIVEN}
        settings = Settings(prompts[:4] if options.smoke else prompts, **values)
        pair = load_with_progress(options, "stories")
        print(f"{pair}: {len(settings.points)} points of {settings.tokens:,} tokens", flush=True)
        return sweep_of(pair, settings, at_once)

    def summarize(self, header: Row, rows: Sequence[Row]) -> Row:
        """The numbers of the paper's figures, and the checks of its findings."""
        return summarize(header, rows)

    def report(self, results: Path, path: Path | None) -> None:
        """Print a summary file, or a results file's summary, which is then written beside it."""
        if results.suffix == ".json":
            summary = json.loads(results.read_bytes())
            if "findings" not in summary:
                raise ValueError(f"{results} is not a summary of an experiment")
            print(self.as_text(summary))
            return
        path = path or results.with_suffix(".summary.json")
        super().report(results, path)
        print(f"written: {path}")

    def as_text(self, summary: Row) -> str:
        """The points, the bounds and the findings as text."""
        lines = [super().as_text({name: summary[name] for name in ("points", "bounds")}), ""]
        lines += [f"{VERDICTS[f['found']]:13} {f['statement']}" for f in summary["findings"]]
        if not summary["complete"]:
            lines += ["", "The experiment is not finished: these are the numbers so far."]
        return "\n".join(lines)


EXPERIMENT = Paper(
    name="experiments",
    about="Tokens per target call against k, acceptance by index, and bounds.",
    smoke={
        "tokens": 60,
        "max_new_tokens": 16,
        "positions": 1,
        "sequence": (1, 2, 4),
        "batch": (1, 2, 3, 4),
        "specinfer": (4, 6),
        "optimal": (1, 2, 4, 8),
    },
)
