"""The table of the operator's options. The command line, the environment variables and `--help` follow it.

The option `models-key` is given as `--models-key KEY` or, on a Space, which has no command line, as the
variable `SPECDEC_MODELS_KEY`. An empty variable counts as not set.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from components.guard import hosts
from components.server.access import RULES
from components.visitors.limits import Limits
from specdec import coder
from specdec.commands import Parser
from specdec.shipped import PAIRS


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither 0 nor 1")
    return text == "1"


_YES_OR_NO = {"action": argparse.BooleanOptionalAction, "default": False}
GROUPS: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "the pair of models": {
        "pair": (
            "smollm2 (135 M parameters, chats; the default if its weights are installed or the hub answers), "
            "coder (Qwen2.5-Coder, 1.5 B with 0.5 B) or stories (15 M, loads at once)",
            {"choices": PAIRS},
        ),
        "download": (
            f"download the pair coder from the hub, {coder.SIZE}, if {coder.VARIABLE} names no folder with "
            f"its files",
            _YES_OR_NO,
        ),
        "target": ("instead of a pair: hub id, folder or GGUF file of the target", {}),
        "draft": ("hub id, folder or GGUF file of the draft", {}),
        "device": ("auto, cpu, cuda or cuda:1", {"default": "auto"}),
        "dtype": ("auto, float32, bfloat16 or float16", {"default": "auto"}),
    },
    "where the page is served": {
        # None leaves the choice to Gradio, which reads GRADIO_SERVER_NAME, so that a Space is reachable.
        "host": ("address to listen on (default: this machine alone, 127.0.0.1)", {}),
        "port": ("port to listen on (default: the first free one from 7860)", {"type": _integer}),
        "share": ("also open a public address through Gradio", {"action": "store_true"}),
        "proxy": (
            "addresses or networks of trusted proxies, separated by commas, for example 127.0.0.1. Their "
            "X-Forwarded-For is used (default: 0, none; on a Space and with --share: private addresses)",
            {"metavar": "ADDRESS"},
        ),
        "names": (
            "further names by which visitors reach this server, separated by commas (always known: IP "
            "addresses, localhost, this machine's name and --host; behind proxies: any name)",
            {"default": ""},
        ),
    },
    "content of the page": {
        "results": (
            "summary that python -m research.experiments --summary wrote; the view Experiments shows it "
            "(default: the shipped one)",
            {"metavar": "FILE", "type": Path},
        ),
    },
    "models that visitors may load, for everybody on this server": {
        "models": (
            "own: any hub id or folder; listed: the pairs of the page's list; fixed: none (default: own if "
            "only this machine can reach the page, fixed on a Space and behind proxies, otherwise listed)",
            {"choices": RULES},
        ),
        "models-key": (
            "key that a visitor must enter to load another pair or to cancel a load (default: none if only "
            "this machine can reach the page, otherwise a random key, which is printed)",
            {"metavar": "KEY"},
        ),
        "models-folder": (
            "the only folder in which visitors' own models are looked up, by their names in it (default: any "
            "folder)",
            {"metavar": "FOLDER", "type": Path},
        ),
    },
    "limits": {
        limit.name.replace("_", "-"): (
            f"most {limit.metadata['what']} (default: {limit.default:,})",
            {"metavar": "N", "type": _integer, "default": limit.default},
        )
        for limit in fields(Limits)
    },
}
"""The help text and further arguments for `argparse` of each option, by group and name."""
_NO_VARIABLE = ("host", "port", "share")
PRIVATE = "127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10,fc00::/7,::1"
"""The networks of the proxies of a Space and of Gradio's tunnel. Visitors never have such private addresses.
"""


def parse(
    arguments: list[str] | None = None, environment: Mapping[str, str] = os.environ
) -> argparse.Namespace:
    """The value of each option: from the command line, otherwise from its variable, otherwise its default.

    ValueError names a value of the wrong kind.
    """
    parser = Parser(description="Watch a pair of language models decode speculatively.")
    for title, options in GROUPS.items():
        group = parser.add_argument_group(title)
        for name, (words, kind) in options.items():
            variable = "" if name in _NO_VARIABLE else f"SPECDEC_{name.upper().replace('-', '_')}"
            option = group.add_argument(f"--{name}", help=words + (variable and f"; {variable}"), **kind)
            text = environment.get(variable)
            if variable == coder.VARIABLE and text not in RULES and Path(text or "").is_dir():
                continue  # the folder of models has the same variable
            if text:
                convert = _switch if kind is _YES_OR_NO else kind.get("type", str)
                try:
                    option.default = convert(text)
                except argparse.ArgumentTypeError as error:
                    parser.error(f"{variable} = {error}")
    return parser.parse_args(arguments)


def proxies(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> str:
    """The proxies to trust: those that the operator states; "0" states that there are none.

    If the operator states nothing, private networks are trusted on a Space or with --share; otherwise nothing
    is. ValueError quotes a text that is not an address or network.
    """
    if options.proxy is None:
        return PRIVATE if "SPACE_ID" in environment or options.share else ""
    stated = [] if options.proxy == "0" else [each.strip() for each in options.proxy.split(",")]
    for each in stated:
        try:
            ipaddress.ip_network(each)
        except ValueError:
            wrong = f"proxy = {each!r:.60} is not an address or network, such as 127.0.0.1 or 10.0.0.0/8"
            raise ValueError(wrong) from None
    return ",".join(stated)


def names(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """The host names under which the server answers: those of --names and --host, and of the variables
    GRADIO_SERVER_NAME and SPACE_HOST. ValueError quotes an invalid name."""
    stated = [each.strip() for each in options.names.split(",") if each.strip()]
    if wrong := [each for each in stated if not hosts.name(each)]:
        raise ValueError(f"names = {wrong[0]!r:.60} is not a name such as page.example.org")
    addresses = [options.host, environment.get("GRADIO_SERVER_NAME"), environment.get("SPACE_HOST")]
    return frozenset({hosts.name(each or "") for each in [*stated, *addresses]} - {""})
