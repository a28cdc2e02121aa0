"""The frame of the page and the code that its panels share.

assets       the page's files, and which of them are public
frame        mounting a panel in the browser; tabs and the address
serving      the look, headers and queue of the page
setup        the whole setup of the page in its address
questions    the checked questions of the laboratories and their answers
catalogue    kinds of tokens and statuses, each defined once
"""
