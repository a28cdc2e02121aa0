"""Will speculative decoding pay for a pair on this machine? This command measures it and answers in three
sentences.

    python -m specdec.payoff --target T --draft D      # or --pair stories

Costs and acceptance are those that "auto" measures.
"""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from specdec.checks import among, whole
from specdec.commands import Parser, add_pair, to_write, write_json
from specdec.decoding.acceptance import finished
from specdec.devices import machine
from specdec.loading import load_with_progress
from specdec.methods import DRAFTING
from specdec.payoff.gain import Payoff
from specdec.payoff.measuring import measuring
from specdec.payoff.setups import THOROUGH, SetUp
from specdec.probs import Sampling
from specdec.settings import RunSettings, add_options


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure a pair and print whether drafting pays. A ValueError is a user's mistake."""
    options = parser().parse_args(arguments)
    setup = _measured(options)
    payoff = Payoff.of(setup)
    result = payoff._asdict() | {"setup": setup.as_json()}
    print(json.dumps(result) if options.json else "\n".join(payoff.sentences()))
    if options.save:
        save(options.save, result)


def save(path: Path, result: dict[str, Any]) -> None:
    """Writes a result, with a description of the machine, to a JSON file."""
    now = {"threads": torch.get_num_threads(), "load": os.getloadavg()[0]}
    write_json(path, {"machine": machine(torch.device("cpu")) | now} | result)


def parser() -> Parser:
    """The options of the command."""
    result = Parser(prog="python -m specdec.payoff", description=__doc__)
    add_pair(result, "hub id, folder or GGUF file")
    add_options(result, "temperature", "top_k", "top_p")
    add, default = result.add_argument, " (default: %(default)s)"
    add("--method", default="ersd", help="one of " + ", ".join(DRAFTING) + default)
    add("--texts", type=int, default=1, help="number of texts decoded together" + default)
    add("--json", action="store_true", help="print the numbers as one line of JSON")
    add(
        "--save",
        type=to_write,
        metavar="FILE",
        help="file to which the numbers, the set-up and the machine are written",
    )
    return result


def _measured(options: Namespace) -> SetUp:
    among("method", options.method, DRAFTING)
    sampling = Sampling(options.temperature, options.top_k, options.top_p)
    texts = whole("texts", options.texts, 1)
    pair = load_with_progress(options)
    settings = RunSettings(options.method, 1, sampling, None, False)
    return finished(measuring(pair, settings, texts, THOROUGH))
