"""`python -m components.compare`: the panel alone."""

import gradio as gr

import specdec
from components.compare.panel import panel
from components.page import serving

if __name__ == "__main__":
    with gr.Blocks(title="Speculative decoding") as blocks:
        panel(specdec.load_pair())
    serving.launch(blocks)
