"""`python -m components.classroom` serves the lessons with a class, without the rest of the page."""

import specdec
from components.classroom.panel import bar, panel
from components.lessons.panel import bar as lesson_bar
from components.lessons.panel import panel as lessons
from components.server.standalone import serve

pair = specdec.load_pair("stories")
serve(lesson_bar(), bar(pair), panel(), lessons())
