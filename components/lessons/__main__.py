"""`python -m components.lessons`: the panel alone."""

import gradio as gr

from components.lessons.panel import bar, panel
from components.page import serving

if __name__ == "__main__":
    with gr.Blocks(title="Lessons") as blocks:
        bar()
        panel()
    serving.launch(blocks)
