"""Will speculative decoding pay for a pair on this machine? This command measures it and answers in three
sentences.

    python -m specdec.payoff --target T --draft D      # or --pair stories
    python -m specdec.payoff --check                   # predicted and measured speed-up of six set-ups

Costs and acceptance are those that "auto" measures.
"""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from specdec.checks import among, whole
from specdec.commands import Parser, add_pair, to_write, write_json
from specdec.decoding.acceptance import finished
from specdec.devices import machine
from specdec.loading import load_with_progress
from specdec.methods import DRAFTING
from specdec.payoff import check
from specdec.payoff.measuring import measuring
from specdec.payoff.setups import THOROUGH, SetUp
from specdec.payoff.verdict import Payoff
from specdec.probs import Sampling
from specdec.settings import RunSettings, add_options


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print. A ValueError is a user's mistake."""
    options = parser().parse_args(arguments)
    if options.check:
        load = partial(load_with_progress, options)
        result: dict[str, Any] = {"check": check.checked(lambda name: load(target=name), smoke=options.smoke)}
        text = check.table(result["check"])
    else:
        setup = _measured(options)
        payoff = Payoff.of(setup)
        result = payoff._asdict() | {"setup": setup.as_json()}
        text = "\n".join(payoff.sentences())
    print(json.dumps(result) if options.json else text)
    if options.save:
        about = machine(torch.device("cpu")) | {
            "threads": torch.get_num_threads(),
            "load": os.getloadavg()[0],
        }
        write_json(options.save, {"machine": about} | result)


def parser() -> Parser:
    """The options of the command."""
    result = Parser(prog="python -m specdec.payoff", description=__doc__)
    add_pair(result, "hub id, folder or GGUF file")
    add_options(result, "temperature", "top_k", "top_p")
    add, default = result.add_argument, " (default: %(default)s)"
    add("--method", default="ersd", help=", ".join(DRAFTING) + default)
    add("--texts", type=int, default=1, help="texts decoded at once" + default)
    add("--check", action="store_true", help="predicted and measured speed-up of six set-ups of our pairs")
    add("--smoke", action="store_true", help="run every stage of the check only briefly, which takes seconds")
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
