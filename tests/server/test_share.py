"""The page with `--share`. Gradio's tunnel is simulated: visitors come from this machine under its name."""

import asyncio

import httpx

from tests.stress.visitors import ROOT, Site, client, serving, stream

NAME = "simulated.gradio.live"
APP = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from gradio import networking
networking.setup_tunnel = lambda *_, **__: "https://{NAME}"
import app
app.main()
"""


def test_a_shared_page_decodes_and_loads_nothing_without_the_key(tmp_path):
    (tmp_path / "shared.py").write_text(APP)
    own = {"host": NAME, "origin": f"https://{NAME}", "x-forwarded-for": "8.8.4.4"}

    async def visit(site):
        async with client(site.address) as http:
            http.headers.update(own)
            load = [said async for said in stream(http, "load_pair", {"pair": "stories"})]
            return await site.generate(http, length=8), load

    with serving("--share", app=tmp_path / "shared.py") as (address, _):
        run, load = asyncio.run(visit(Site(address)))
        foreign = own | {"origin": "https://evil.example"}
        refused = httpx.post(f"{address}/ask/models/state", json=None, headers=foreign)
        assert httpx.get(address, headers=own).status_code == 200
    assert (run.failure, len(run.token_ids)) == ("", 8)
    assert "The key is not the one" in load[0][1]
    assert refused.status_code == 403
