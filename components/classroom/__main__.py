"""`python -m components.classroom`: lessons with a class, and nothing else of the page."""

import gradio as gr

import specdec
from components.classroom.panel import bar, panel
from components.lessons.panel import bar as lesson_bar
from components.lessons.panel import panel as lessons
from components.page import serving

if __name__ == "__main__":
    pair = specdec.load_pair()
    with gr.Blocks(title="Classroom") as blocks:
        lesson_bar()
        bar(pair)
        panel()
        lessons(pair)
    serving.launch(blocks)
