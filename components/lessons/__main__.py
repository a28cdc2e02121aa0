"""`python -m components.lessons`: the panel alone."""

import gradio as gr

import specdec
from components.lessons.panel import bar, panel
from components.page import serving

if __name__ == "__main__":
    with gr.Blocks(title="Lessons") as blocks:
        bar()
        panel(specdec.load_pair())
    serving.launch(blocks)
