"""`python -m components.experiments`: the panel alone."""

import gradio as gr

from components.experiments.panel import panel
from components.page import serving

if __name__ == "__main__":
    with gr.Blocks(title="Experiments") as blocks:
        panel()
    serving.launch(blocks)
