"""The frame of the page, and the code that its panels share.

assets      the page's files, and which of them are public
frame       the parts of the page: panels, places, templates, and what their scripts need
forms       the fields of forms
settings    the table of a run's settings
serving     the page and its server, `gradio.Server`
setup       the whole setup of the page in its address
questions   the checked questions of the panels and their answers
catalogue   kinds of tokens and statuses, each defined once
unheard     ends runs whose visitors do not listen
"""
