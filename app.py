"""The page: watch a pair of language models decode speculatively.

    python app.py                                             # the embedded pair, offline
    python app.py --target Qwen/Qwen3-8B --draft Qwen/Qwen3-0.6B --device cuda

This file only arranges the panels of `components` and starts the server.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
if not any(argument.startswith(("--target", "--draft")) for argument in sys.argv):
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the embedded pair needs nothing from outside

import gradio as gr
import torch

import specdec
from components import (
    api,
    codec_lab,
    controls,
    experiments_lab,
    page,
    race,
    race_lab,
    replay,
    statistics,
    stepper,
    text,
    tree,
    tree_lab,
)
from components.lazy import LazyPair

_INTRODUCTION = """
<header class="introduction">
  <h1>Speculative decoding, token by token</h1>
  <p>A small, fast <b>draft</b> model guesses the next tokens; the large <b>target</b> model checks all
    guesses in one evaluation and keeps those it would have written itself. The text keeps exactly the
    target's own probabilities, but takes fewer of its slow evaluations.</p>
</header>
"""


def build(pair: Any = None) -> gr.Blocks:
    """The page for a pair of models; without one, the embedded pair."""
    pair = specdec.load_pair() if pair is None else pair
    with gr.Blocks(title="Speculative decoding", fill_width=True) as blocks:
        gr.HTML(_INTRODUCTION, apply_default_css=False)
        with gr.Tabs(elem_id="tabs") as tabs:
            _decode(pair)
            with gr.Tab("Race lab", id="race"):
                race_lab.panel()
            with gr.Tab("Tree lab", id="trees"):
                tree_lab.panel()
            with gr.Tab("Experiments", id="experiments"):
                experiments_lab.panel()
                codec_lab.panel()
        page.tabs_in_url(blocks, tabs)
        api.endpoint(pair)
    return blocks


def _decode(pair: Any) -> None:
    # Its scripts must run wherever the visitor is: a run goes on behind another tab.
    with gr.Tab("Decode", id="live", render_children=True), gr.Row(elem_id="page"):
        with gr.Column(scale=1, min_width=320, elem_id="controls"):
            controls.build(pair)
        with gr.Column(scale=3, min_width=320, elem_id="results"):
            replay.panel()
            text.panel()
            stepper.panel()
            with gr.Row(elem_id="figures"):
                tree.panel()
                race.panel()
            statistics.panel(pair)


def main(arguments: list[str] | None = None) -> None:
    """Serve the page for the pair that the command line names.

    The embedded pair is loaded while the page is opened and plays a recorded run; any other before, so that
    nobody is shown a page whose models do not load.
    """
    options = _parser().parse_args(arguments)
    pair = LazyPair(partial(_load, options))
    try:
        if options.target or options.draft:
            pair.load()
        blocks = build(pair)
        page.launch(
            blocks,
            server_name=options.host,
            server_port=options.port,
            share=options.share,
            prevent_thread_lock=True,
        )
        pair.load()
    except ValueError as error:
        sys.exit(f"error: {error}")
    blocks.block_thread()


def _load(options: argparse.Namespace) -> Any:
    if options.target is None:
        # models this small gain nothing from a second thread, and on a busy machine lose by it
        torch.set_num_threads(1)
    return specdec.load_pair(options.target, options.draft, device=options.device, dtype=options.dtype)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Watch a pair of language models decode speculatively.")
    parser.add_argument("--target", help="hub id or folder of the target (default: the embedded pair)")
    parser.add_argument("--draft", help="hub id or folder of the draft")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:1")
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16")
    # None leaves it to Gradio, which reads GRADIO_SERVER_NAME: so a Space can reach the page
    parser.add_argument("--host", help="address to listen on (default: this machine alone, 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (default: the first free one from 7860)")
    parser.add_argument("--share", action="store_true", help="also open a public address through Gradio")
    return parser


if __name__ == "__main__":
    main()
