"""`python -m components.be_draft`: the panel alone."""

import gradio as gr

import specdec
from components.be_draft.panel import panel
from components.page import serving

if __name__ == "__main__":
    with gr.Blocks(title="You are the draft") as blocks:
        panel(specdec.load_pair())
    serving.launch(blocks)
