"""`python -m components.decode`: the panel alone."""

import gradio as gr

import specdec
from components.decode.panel import panel
from components.page import serving

if __name__ == "__main__":
    with gr.Blocks(title="Speculative decoding") as blocks:
        panel(specdec.load_pair(), None)
    serving.launch(blocks)
