"""`python -m components.codecs`: the panel alone."""

import gradio as gr

from components.codecs.panel import panel
from components.page import serving

if __name__ == "__main__":
    with gr.Blocks(title="Codecs") as blocks:
        panel()
    serving.launch(blocks)
