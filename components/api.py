"""The typed streaming endpoint `/generate`: the same rounds as JSON, for `gradio_client`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import gradio as gr

from components import page, run


def endpoint(pair: Any) -> None:
    """Add `/generate` to the page that is being built."""

    def generate(
        prompt: str,
        method: str = "ersd",
        topology: str = "sequence",
        k: int = 4,
        max_new_tokens: int = 64,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> Iterator[str]:
        """Decode speculatively; yields one round after the other as JSON (`specdec.Round.from_json`).

        method: ersd, gsd or ar. topology: simple, sequence, batch, specinfer, optimal (of k drafted
        tokens) or auto. top_k = 0 and top_p = 1 switch those off; temperature = 0 is greedy. The same
        seed gives the same rounds.
        """
        settings = run.Settings(prompt, method, topology, k, max_new_tokens, temperature, top_k, top_p, seed)
        try:
            with closing(run.start(pair, settings.checked())) as rounds:
                for round in rounds:
                    yield round.to_json()
        except ValueError as error:
            raise gr.Error(str(error), print_exception=False) from None

    gr.api(generate, api_name="generate", concurrency_limit=1, concurrency_id=page.MODEL_QUEUE)
