"""`python -m components.classroom` serves the lessons with a class, without the rest of the page."""

from functools import partial

import specdec
from components.classroom.panel import bar, panel
from components.lessons.panel import bar as lesson_bar
from components.lessons.panel import panel as lessons
from components.server.standalone import serve

if __name__ == "__main__":
    pair = specdec.load_pair("stories")
    serve(lesson_bar, partial(bar, pair), panel, partial(lessons, pair))
