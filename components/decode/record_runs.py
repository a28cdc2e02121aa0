"""Record everything on the page that depends on models: `python -m components.decode.record_runs --again`.

These are the recorded runs, Compare's recordings and the screenshots; it takes about a minute on a quiet
CPU. Run it after a draft was trained again.

Each entry of `RECORDINGS` says what a recorded run must show, and has a function of `moments` that scores how
well a run shows it. Questions are decoded with several seeds, and the run with the highest score is written
to `assets/traces`, as `specdec.Generation.to_json` writes it; `index.json` holds the titles and the round to
look at. Each recorded run is timed in turns with plain decoding, as the page times a visitor's run, and its
file holds both times. `--again` keeps the prompt and the seed of each run that still shows its subject.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import specdec
from components.decode import controls, screenshots, traces
from components.decode.moments import (
    Moment,
    correction_after_many,
    early_rejection,
    long_run,
    parting,
    undrafted,
    wide_tree,
)
from components.runs import lazy, topologies
from components.runs.timing import Repeats
from specdec import Generation, Topology
from specdec.decoding.acceptance import Steps
from specdec.trace import Timing

NAMES = {
    "smollm2": ("SmolLM2-135M-Instruct", "smollm2/draft"),
    "stories": ("stories/target", "stories/draft"),
    "coder": ("Qwen2.5-Coder-1.5B-Instruct", "Qwen2.5-Coder-0.5B-Instruct"),
}
"""For each pair, the short names of target and draft that its recorded runs contain."""
MOST_BYTES = 1_000_000
"""A recorded run may have at most this many bytes, because the page must start to play it within a second."""


Finder = Callable[..., Moment | None]


@dataclass(frozen=True)
class Recording:
    """A run to record. `find` gets one run per method and returns the moment that shows the subject best, or
    None.

    look: the sentence that says what to look at. topology: None means the optimal tree of `OPENING_DRAFTS`
    tokens, by measured acceptance. seed: the only seed to try, chosen by hand; None tries several. pair: the
    pair's name; the story pair continues a text, and the other pairs answer a question.
    """

    name: str
    title: str
    look: str
    topology: Topology | None
    methods: tuple[str, ...]
    find: Finder
    max_new_tokens: int = 64
    prompt: str | None = None
    seed: int | None = None
    pair: str = "smollm2"

    @property
    def chat(self) -> bool:
        """Whether the prompt is a question."""
        return self.pair != "stories"

    def settings(self, seed: int) -> dict[str, Any]:
        """The settings of a run with this seed. The temperature is that of the pair's runs on the page."""
        temperature = {"smollm2": 0.7, "coder": 0.3}.get(self.pair, 1.0)
        return {"max_new_tokens": self.max_new_tokens, "temperature": temperature, "seed": seed}

    def names(self) -> list[str]:
        """The names of the files to write, one for each method."""
        return [self.name] if len(self.methods) == 1 else [f"{self.name}-{m}" for m in self.methods]


def _wide(levels: tuple[int, ...]) -> Topology:
    """A tree whose nodes on the path of first children have `levels[depth]` children each. All other nodes
    have one child."""
    paths: list[tuple[int, ...]] = []
    for depth, width in enumerate(levels):
        paths += [(0,) * depth + (index,) for index in range(width)]
        if depth > 0:
            paths += [(index, *(0,) * depth) for index in range(1, levels[0] >> depth)]
    return Topology(sorted(paths, key=lambda path: (len(path), path)))


EIGHT = Topology([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (0, 0, 0, 0)])
"""A tree of 8 tokens, similar to the optimal tree that the page computes for a good draft."""
OPENING_DRAFTS = {"smollm2": 4, "coder": 7}
"""For each pair, the number of drafted tokens per round in the run that the page opens with. A target call
over so many tokens costs little more than a call over one."""

RECORDINGS = [
    Recording(
        "code",
        "A model writes code: seven tokens per call",
        "All seven guesses are often right here: code is easy to predict.",
        None,
        ("ersd",),
        correction_after_many,
        max_new_tokens=98,  # ends with the code
        prompt=controls.CODE[0],
        seed=24,
        pair="coder",
    ),
    Recording(
        "opening",
        "A first look: a chat model answers",
        "Why faster? A call reads the large model from memory once, whether it checks one word or five.",
        None,
        ("ersd",),
        correction_after_many,
        max_new_tokens=controls.ANSWER,
        prompt=controls.QUESTIONS[5],
        seed=30,
    ),
    Recording(
        "story",
        "A first look at the story pair: a tree of six drafted tokens per round",
        "Amber tokens: drafted by the small model and kept by the large one. Blue tokens: the large model's "
        "own.",
        Topology([(0,), (1,), (0, 0), (0, 1), (0, 0, 0), (0, 0, 0, 0)]),
        ("ersd",),
        correction_after_many,
        prompt=controls.STORIES[0],
        seed=119,
        pair="stories",
    ),
    Recording(
        "long-run",
        "A long accepted run: five in a row",
        "The whole sequence is accepted and a bonus token is added: six tokens for one target call.",
        specdec.topology.sequence(5),
        ("ersd",),
        long_run,
    ),
    Recording(
        "early-rejection",
        "An early rejection: one wrong guess, and the later guesses are lost",
        "The first of four drafted tokens fails its test; the three after it are never checked.",
        specdec.topology.sequence(4),
        ("gsd",),
        early_rejection,
        max_new_tokens=48,
    ),
    Recording(
        "parting",
        "GSD and ERSD differ on the same prompt, seed and draft",
        "Both check the same tree; one accepts a token that the other rejects.",
        EIGHT,
        ("gsd", "ersd"),
        parting,
        max_new_tokens=48,
    ),
    Recording(
        "wide-tree",
        "A wide tree: a later alternative saves the round",
        "The draft's first choice is wrong, but the target takes a later alternative.",
        _wide((16, 6, 3, 2)),
        ("ersd",),
        wide_tree,
        max_new_tokens=48,
    ),
    Recording(
        "nobody-drafted",
        "A correction that nobody drafted",
        "The winner of the target's race arrived very late in the draft's race, so no small tree would "
        "contain it.",
        specdec.topology.batch(4),
        ("ersd",),
        undrafted,
        max_new_tokens=48,
    ),
]


def candidates(pair: Any, recording: Recording, tries: int) -> Iterator[list[Generation]]:
    """Yield the runs to choose from: for each of `tries` seeds one run per method.

    If no prompt is given, the seeds use the page's questions in turn.
    """
    for seed in range(tries) if recording.seed is None else [recording.seed]:
        prompt = recording.prompt or controls.QUESTIONS[seed % len(controls.QUESTIONS)]
        yield [record(pair, prompt, method, recording, seed) for method in recording.methods]


def record(pair: Any, prompt: str, method: str, recording: Recording, seed: int) -> Generation:
    """One run with all data that the page shows. The models have their short names."""
    ids = pair.chat_prompt(prompt) if recording.chat else pair.encode(prompt)
    settings, topology = recording.settings(seed), recording.topology
    if topology is None:  # acceptance is measured once, because the pair stores it
        sampling: dict[str, Any] = {"temperature": settings["temperature"], "top_k": 0, "top_p": 1.0}
        k = OPENING_DRAFTS[recording.pair]
        topology = topologies.topology(pair, "optimal", k, method=recording.methods[0], **sampling)
    run = specdec.generate(pair, ids, method=method, topology=topology, detail=True, **settings)
    target, draft = NAMES[recording.pair]
    return replace(run, target=target, draft=draft, prompt=prompt, chat=recording.chat)


def timed(pair: Any, recording: Recording, run: Generation) -> Repeats:
    """The run and plain decoding of the same prompt and seed, decoded in turns several times."""

    def beginning(method: Any, topology: Topology | None) -> Steps[Any]:
        options = {"method": method, "topology": topology, "detail": False, **recording.settings(run.seed)}
        yield
        return specdec.stream(pair, run.prompt_ids, **options)

    repeats = Repeats(
        partial(beginning, run.method, Topology(run.paths)),
        partial(beginning, "ar", None),
        alone=lambda: True,
        longest=math.inf,
    )
    for _ in repeats.steps():
        pass
    return repeats


def best(pair: Any, recording: Recording, tries: int) -> tuple[Moment, list[Generation]]:
    """The runs with the highest score among `tries` seeds. If none of them shows the subject, more seeds are
    tried, and the first runs that show it are returned.

    ValueError if none of ten times as many seeds shows it.
    """
    matches: list[tuple[Moment, list[Generation]]] = []
    for number, runs in enumerate(candidates(pair, recording, 10 * tries)):
        if number >= tries and matches:
            break
        moment = recording.find(*runs)
        if moment is not None and (recording.seed is not None or ends_well(runs)):
            matches.append((moment, runs))
    if not matches:
        raise ValueError(f"none of {10 * tries} runs shows {recording.name}: try more runs")
    return max(matches, key=lambda pair: pair[0].score)


def again(pair: Any, recording: Recording) -> tuple[Moment, list[Generation]] | None:
    """Decode the recorded runs of an entry again.

    None if the entry has no recorded runs, or if they no longer show its subject.
    """
    path = traces.FOLDER / f"{recording.names()[0]}.json"
    if not path.exists():
        return None
    old = Generation.from_json(path.read_text(encoding="utf-8"))
    if old.chat != recording.chat:
        return None
    seed = old.seed if recording.seed is None else recording.seed
    (runs,) = candidates(pair, replace(recording, prompt=recording.prompt or old.prompt, seed=seed), 1)
    moment = recording.find(*runs)
    return None if moment is None else (moment, runs)


def ends_well(runs: list[Generation]) -> bool:
    """Whether every run has its full length and few line ends, so that it reads like a text."""
    return all(run.rounds[-1].finish == "length" and run.text.count("\n") <= 2 for run in runs)


def write(
    recording: Recording, moment: Moment, runs: list[tuple[Generation, Repeats]], folder: Path
) -> list[dict[str, Any]]:
    """Write the runs with their times, and return their entries of the index.

    ValueError if a run is too large.
    """
    entries = []
    for name, method, (run, repeats) in zip(recording.names(), recording.methods, runs, strict=True):
        text = with_times(run, repeats)
        if len(text) > MOST_BYTES:
            raise ValueError(f"{name} has {len(text):,} bytes, more than {MOST_BYTES:,}: record fewer tokens")
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        twin = next((other for other in recording.names() if other != name), None)
        title = recording.title if twin is None else f"{recording.title} ({method.upper()})"
        place = {"round": moment.round, "step": moment.step}
        entries.append({"name": name, "title": title, "look": recording.look, "twin": twin, **place})
    return entries


def with_times(run: Generation, repeats: Repeats) -> str:
    """The run as JSON, with the rounds of plain decoding and the times of all repeats added."""
    timings = tuple(
        Timing(**{name: tuple(round(each, 6) for each in seconds) for name, seconds in repeat.items()})
        for repeat in repeats.seconds
    )
    return replace(run, baseline=tuple(repeats.plain_rounds), timings=timings).to_json()


def main(arguments: list[str] | None = None) -> None:
    """Search, record and write the runs that the command line names. Other entries of the index stay."""
    parser = argparse.ArgumentParser(description="Record what the page shows without a model.")
    parser.add_argument("names", nargs="*", help="the runs to record (default: all)")
    parser.add_argument("--tries", type=int, default=12, help="runs from which each is chosen (default: 12)")
    parser.add_argument(
        "--again",
        action="store_true",
        help="keep the prompt and the seed of each run that still shows what it is recorded for",
    )
    options = parser.parse_args(arguments)
    recordings = [each for each in RECORDINGS if not options.names or each.name in options.names]
    try:
        for name in NAMES:
            if not (of_pair := [recording for recording in recordings if recording.pair == name]):
                continue
            pair = specdec.load_pair(name)
            lazy.use_threads(pair)
            for recording in of_pair:
                earlier = again(pair, recording) if options.again else None
                _record(pair, recording, *(earlier or best(pair, recording, options.tries)))
        if not options.names:  # Compare's panel imports this folder, so its recording is a separate command
            subprocess.run([sys.executable, "-m", "components.compare.record_columns"], check=True)
            screenshots.take()
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")


def _record(pair: Any, recording: Recording, moment: Moment, runs: list[Generation]) -> None:
    new = write(recording, moment, [(run, timed(pair, recording, run)) for run in runs], traces.FOLDER)
    print(f"{recording.name}: seed {runs[0].seed}, {moment}, {runs[0].prompt!r}", flush=True)
    entries = {entry["name"]: entry for entry in [*traces.entries(), *new]}
    ordered = [entries[name] for recording in RECORDINGS for name in recording.names() if name in entries]
    traces.INDEX.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
