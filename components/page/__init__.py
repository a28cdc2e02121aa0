"""The frame of the page, and what its panels share.

assets       its files, and which of them are public
frame        how a panel is mounted in the browser; tabs and the address
serving      its look, its headers, its queue
setup        the whole set-up of the page in its address
questions    what the laboratories ask the server, checked, and their answers
catalogue    topologies, kinds of tokens and statuses, each once
figures      figures: colours, axes and an empty one
"""
