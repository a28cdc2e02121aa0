"""Connections below HTTP: what one may send before it has sent a request, and how long it may wait."""

import asyncio
import socket
import time
from contextlib import closing, suppress
from types import SimpleNamespace

import httpx
import psutil
import pytest
import uvicorn
from uvicorn.server import ServerState

from components.guard.connections import LEAST_PIECE, MOST_HEAD, MOST_LINES, MOST_PIPELINED, Connection
from components.page.assets import PLOTLY, file_url
from tests.stress.visitors import Site, client, serving

HEAD = "GET /robots.txt HTTP/1.1\r\nHost: localhost\r\n"
CLOSE = "Connection: close\r\n"
PATIENCE = 60
"""Seconds until a test gives up."""
CHUNKED = (
    "POST /gradio_api/cancel HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Transfer-Encoding: chunked\r\n\r\n"
)


@pytest.fixture(scope="module")
def server():
    options = ("--request-seconds", "6", "--stalled-seconds", "4", "--connections-per-visitor", "40")
    with serving(*options) as (address, process):
        asyncio.run(_one_run(address))  # models are loaded
        yield address, process


@pytest.fixture
def address(server):
    return server[0]


def connected(address, source="127.0.0.1"):
    host, port = address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE, source_address=(source, 0))


def until(holds):
    """Wait for a condition."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def answer(address, *parts, source="127.0.0.1"):
    """All that the server answers to these bytes until it closes the connection."""
    with closing(connected(address, source)) as connection:
        with suppress(OSError):  # it may be closed before all is sent
            for part in parts:
                connection.sendall(part if isinstance(part, bytes) else part.encode())
        received = b""
        with suppress(OSError):
            while more := connection.recv(65_536):
                received += more
        return received


# ---------------------------------------------------------------- what is sent


@pytest.mark.parametrize("lines", [MOST_LINES, 15_000])
def test_a_head_has_a_limit_of_lines(address, lines):
    assert b"more than 100 header lines" in answer(address, HEAD, "a:\r\n" * lines, "\r\n")


def test_a_head_below_the_limit_is_read(address):
    assert answer(address, head_of(MOST_LINES, CLOSE)).startswith(b"HTTP/1.1 200")


def head_of(lines, last="x: y\r\n"):
    more = "".join(f"x-{number}: {'a' * 300}\r\n" for number in range(lines - 2))
    return HEAD + more + last + "\r\n"


@pytest.mark.parametrize(
    "head",
    [
        "GET /?" + "a" * (MOST_HEAD + 1) + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
        f"{HEAD}a: {'a' * (MOST_HEAD + 1)}\r\n\r\n",
        f"{HEAD}{'a' * 5 * MOST_HEAD}",
    ],
    ids=["address", "value", "name"],
)
def test_a_head_has_a_limit_of_bytes(address, head):
    assert b"head is too long" in answer(address, head)


def test_an_endless_head_is_not_kept(server):
    address, process = server
    before = process.memory_info().rss
    parts = [b"a" * 60_000] * 2_000  # 120 MB
    assert b"head is too long" in answer(address, f"{HEAD}a: ", *parts)
    assert process.memory_info().rss - before < 20 << 20


@pytest.mark.parametrize("trailer", ["a: b\r\n\r\n", "a:\r\n" * 15_000 + "\r\n"])
def test_trailers_are_refused(address, trailer):
    assert b"Trailers are not accepted" in answer(address, CHUNKED, "2\r\n{}\r\n0\r\n", trailer)


def test_a_body_in_tiny_chunks_is_refused_at_once(address):
    assert b"pieces that are too small" in answer(address, CHUNKED, "1\r\n \r\n" * 100)


def test_the_extension_of_a_chunk_has_a_limit(address):
    assert b"head is too long" in answer(address, CHUNKED, "1;", *["a" * 60_000] * 4)


def test_a_body_in_ordinary_chunks_is_read(address):
    chunk = f"{LEAST_PIECE:x}\r\n{' ' * LEAST_PIECE}\r\n"
    asking = CHUNKED.replace("\r\n\r\n", f"\r\n{CLOSE}\r\n")
    ended = answer(address, asking, chunk * 300, "2\r\n{}\r\n0\r\n\r\n")
    assert ended.startswith(b"HTTP/1.1 422"), "the app answers: it wants other fields"


def test_requests_after_one_another_on_a_connection_have_limits_of_their_own(address):
    heads = [*[head_of(60)] * 3, head_of(60, CLOSE)]
    assert answer(address, *heads).count(b"HTTP/1.1 200") == 4


def test_few_requests_may_be_sent_ahead_of_their_answers(address):
    ahead = f"{HEAD}\r\n" * (MOST_PIPELINED - 1) + f"{HEAD}{CLOSE}\r\n"
    assert answer(address, ahead).count(b"HTTP/1.1 200") == MOST_PIPELINED
    assert b"ahead of their answers" in answer(address, f"{HEAD}\r\n" * 500)


# ---------------------------------------------------------------- how long it waits


def test_connections_without_a_whole_head_are_ended(address):
    begun = ("", "GET / HTTP/1.1\r\nHost: localhost\r\n", "\r\n\r\n")
    start = time.monotonic()
    connections = [connected(address) for _ in begun]
    for connection, sent in zip(connections, begun, strict=True):
        connection.sendall(sent.encode())
    for connection in connections:
        with closing(connection), suppress(ConnectionError):
            while connection.recv(65_536):
                pass
    assert time.monotonic() - start > 5, "they had time to go on"


def test_a_client_that_takes_nothing_of_an_answer_is_let_go(server):
    address, process = server
    request = f"GET /{file_url(PLOTLY)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    httpx.get(f"{address}/{file_url(PLOTLY)}")
    before = process.memory_info().rss
    unread = [connected(address) for _ in range(30)]
    for connection in unread:
        connection.sendall(request)
    ports = {connection.getsockname()[1] for connection in unread}
    time.sleep(1)
    assert process.memory_info().rss - before < 30 << 20, "30 answers of 4.7 MB wait in pieces"
    until(lambda: not ports & {c.raddr.port for c in process.net_connections("tcp") if c.raddr})
    for connection in unread:
        connection.close()


def test_a_client_that_reads_slowly_gets_the_whole_answer(address):
    whole = len(PLOTLY.read_bytes())
    with closing(connected(address)) as connection:
        connection.sendall(f"GET /{file_url(PLOTLY)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        received, start = 0, time.monotonic()
        while received < whole:
            more = len(connection.recv(80_000))
            assert more, "it was let go"
            received += more
            time.sleep(0.1)
        assert time.monotonic() - start > 4, "longer than a client may take nothing"


# ---------------------------------------------------------------- how many there are


def test_an_address_has_so_many_connections_and_others_are_let_in(address):
    source = "127.0.9.9"
    held = [connected(address, source) for _ in range(40)]
    try:
        assert answer(address, f"{HEAD}{CLOSE}\r\n", source=source) == b""
        assert answer(address, f"{HEAD}{CLOSE}\r\n", source="127.0.9.10").startswith(b"HTTP/1.1 200")
    finally:
        for connection in held:
            connection.close()
    until(lambda: answer(address, f"{HEAD}{CLOSE}\r\n", source=source).startswith(b"HTTP/1.1 200"))


def test_connections_of_one_ipv6_network_are_counted_together():
    """A visitor usually has the whole /64 network, so each connection could come from another address."""

    def connect(source):
        config = uvicorn.Config(app=None)
        made = Connection(config, server_state=ServerState(), app_state={}, _loop=asyncio.get_running_loop())
        facts = {"peername": (source, 1), "sockname": ("::1", 2)}
        made.connection_made(
            SimpleNamespace(get_extra_info=facts.get, abort=lambda: None, close=lambda: None)
        )

    async def counted():
        for source in ("2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1", "::ffff:192.0.2.1", "192.0.2.1"):
            connect(source)
        return dict(Connection.per_address)

    expected = {"2001:db8::/64": 2, "2001:db8:0:1::/64": 1, "192.0.2.1": 2}
    try:
        assert asyncio.run(counted()) == expected
    finally:
        Connection.per_address.clear()


def test_a_server_without_handles_says_so_in_few_words(tmp_path):
    log = tmp_path / "log"
    with log.open("wb") as out, serving(log=out) as (address, process):
        asyncio.run(_one_run(address))  # models are loaded
        process.rlimit(psutil.RLIMIT_NOFILE, (process.num_fds() + 5,) * 2)
        before = log.stat().st_size
        held = [connected(address) for _ in range(40)]
        until(lambda: log.stat().st_size > before)
        time.sleep(3)
        for connection in held:
            connection.close()
        assert log.stat().st_size - before < 1000
        until(lambda: _answers(address))


def _answers(address):
    with suppress(httpx.HTTPError):
        return httpx.get(f"{address}/robots.txt", timeout=20).status_code == 200


async def _one_run(address):
    async with client(address) as http:
        assert (await Site(address).generate(http)).token_ids
