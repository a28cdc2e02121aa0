"""A page in an isolated frame of a notebook, with a still picture above it.

The picture is for notebooks that run no scripts or show no frames (iframes). The frame is a sandbox without
the notebook's origin, so its scripts can reach neither the notebook nor anything else. The frame shows the
same picture until its page is unpacked; if scripts may not run, it keeps the picture. The page is compressed,
because the record of 200 tokens with all races takes half a megabyte.
"""

from __future__ import annotations

import base64
import gzip

from specdec.notebook.colours import card, style

_FRAME = """<!doctype html>
<html><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"></head>
<body>{still}<script>
const packed = Uint8Array.from(atob("{packed}"), (letter) => letter.charCodeAt(0));
const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
new Response(stream).text().then((page) => {{ document.open(); document.write(page); document.close(); }});
</script></body></html>"""


def framed(page: str, still: str, title: str) -> str:
    """HTML for a notebook that shows a page in a frame. still: the HTML that is shown if the page is not."""
    packed = base64.b64encode(gzip.compress(page.encode(), mtime=0)).decode()
    inner = _FRAME.format(packed=packed, still=f'{style()}<div class="specdec">{still}</div>')
    quoted = inner.replace("&", "&amp;").replace("'", "&#39;")
    frame = f'<iframe title="{title}" sandbox="allow-scripts" srcdoc=\'{quoted}\'></iframe>'
    return card(f'<div class="still">{still}</div>{frame}')
