"""`python -m components.losslessness`: the panel alone."""

import gradio as gr

from components.losslessness.panel import panel
from components.page import serving

if __name__ == "__main__":
    with gr.Blocks(title="Losslessness") as blocks:
        panel()
    serving.launch(blocks)
