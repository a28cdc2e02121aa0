"""How records show themselves in a notebook, and the page that plays one offline.

bundle    the page's scripts as one, which imports nothing
player    that page: panels, style sheets, scripts and a trace, in one file
framed    the same in an isolated frame of a notebook, above it what is seen where no scripts run
still     text and tables as plain HTML
tree      a draft tree as a drawing
colours   the page's sheet of colours

Knows no record: `specdec.trace` and `specdec.topology` call it, with a trace as JSON or with plain values.
"""
