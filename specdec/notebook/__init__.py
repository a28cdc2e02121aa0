"""Shows the records of `specdec.trace` in a notebook, and writes the page that plays a record offline.

shown    the output of each record
bundle   all scripts of the page as one script without imports
player   the offline page: panels, style sheets, scripts and a record in one file
framed   the offline page in an isolated frame of a notebook, with a still picture if no scripts run
still    text and tables as plain HTML
tree     a draft tree as a drawing
colours  the page's sheet of colours

No file of this folder imports the records. `specdec.trace` and `specdec.topology` pass JSON or plain values.
"""
