"""Connections below HTTP: what one may send before it has sent a request, and how long it may wait."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import closing, suppress

import httpx
import psutil
import pytest

from components.guard.connections import LEAST_PIECE, MOST_HEAD, MOST_LINES, MOST_PIPELINED
from components.page.assets import PLOTLY, file_url
from tests.stress.visitors import Site, client, serving

HEAD = "GET /robots.txt HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = (
    "POST /gradio_api/cancel HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Transfer-Encoding: chunked\r\n\r\n"
)


@pytest.fixture(scope="module")
def server():
    options = ("--head-seconds", "2", "--stalled-seconds", "2", "--connections-per-visitor", "40")
    with serving(*options) as (address, process):
        asyncio.run(_one_run(address))  # models are loaded
        yield address, process


@pytest.fixture
def address(server):
    return server[0]


def connected(address, source="127.0.0.1"):
    host, port = address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30, source_address=(source, 0))


def answer(address, *parts, source="127.0.0.1"):
    """All that the server answers to these bytes until it closes the connection or is silent for a second."""
    with closing(connected(address, source)) as connection:
        with suppress(OSError):  # it may be closed before all is sent
            for part in parts:
                connection.sendall(part if isinstance(part, bytes) else part.encode())
        connection.settimeout(1)
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
    head = HEAD + "".join(f"x-{number}: {'a' * 300}\r\n" for number in range(MOST_LINES - 2)) + "\r\n"
    assert answer(address, head).startswith(b"HTTP/1.1 200")


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
    ended = answer(address, CHUNKED, chunk * 300, "2\r\n{}\r\n0\r\n\r\n")
    assert ended.startswith(b"HTTP/1.1 422"), "the app answers: it wants other fields"


def test_requests_after_one_another_on_a_connection_have_limits_of_their_own(address):
    head = HEAD + "".join(f"x-{number}: {'a' * 300}\r\n" for number in range(60)) + "\r\n"
    assert answer(address, head, head, head, head).count(b"HTTP/1.1 200") == 4


def test_few_requests_may_be_sent_ahead_of_their_answers(address):
    assert answer(address, f"{HEAD}\r\n" * MOST_PIPELINED).count(b"HTTP/1.1 200") == MOST_PIPELINED
    assert b"ahead of their answers" in answer(address, f"{HEAD}\r\n" * 500)


# ---------------------------------------------------------------- how long it waits


def seconds_until_closed(connection):
    start = time.monotonic()
    connection.settimeout(10)
    with suppress(ConnectionError):
        while connection.recv(65_536):
            pass
    return time.monotonic() - start


@pytest.mark.parametrize("begun", ["", "GET / HTTP/1.1\r\nHost: localhost\r\n", "\r\n\r\n"])
def test_a_connection_without_a_whole_head_is_ended(address, begun):
    with closing(connected(address)) as connection:
        connection.sendall(begun.encode())
        assert 1 < seconds_until_closed(connection) < 6


def test_a_client_that_takes_nothing_of_an_answer_is_let_go(server):
    address, process = server
    request = f"GET /{file_url(PLOTLY)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    httpx.get(f"{address}/{file_url(PLOTLY)}")
    before = process.memory_info().rss
    unread = [connected(address) for _ in range(30)]
    for connection in unread:
        connection.sendall(request)
    time.sleep(1)
    assert process.memory_info().rss - before < 30 << 20, "30 answers of 4.7 MB wait in pieces"
    assert _to_port(process) >= 30
    time.sleep(5)
    assert _to_port(process) < 30
    for connection in unread:
        connection.close()


def _to_port(process):
    return sum(connection.status == psutil.CONN_ESTABLISHED for connection in process.net_connections("tcp"))


def test_a_client_that_reads_slowly_gets_the_whole_answer(address):
    whole = len(PLOTLY.read_bytes())
    with closing(connected(address)) as connection:
        connection.sendall(f"GET /{file_url(PLOTLY)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        received, start = 0, time.monotonic()
        while received < whole:
            received += len(connection.recv(100_000))
            time.sleep(0.1)
        assert time.monotonic() - start > 4, "longer than a client may take nothing"


# ---------------------------------------------------------------- how many there are


def test_an_address_has_so_many_connections_and_others_are_let_in(address):
    source = "127.0.9.9"
    held = [connected(address, source) for _ in range(40)]
    try:
        one_more = answer(address, f"{HEAD}\r\n", source=source)
        assert one_more == b""
        assert answer(address, f"{HEAD}\r\n", source="127.0.9.10").startswith(b"HTTP/1.1 200")
    finally:
        for connection in held:
            connection.close()
    time.sleep(0.5)
    assert answer(address, f"{HEAD}\r\n", source=source).startswith(b"HTTP/1.1 200")


def test_a_server_without_handles_says_so_in_few_words(tmp_path):
    log = tmp_path / "log"
    with log.open("wb") as out, serving(log=out) as (address, process):
        asyncio.run(_one_run(address))  # models are loaded
        process.rlimit(psutil.RLIMIT_NOFILE, (process.num_fds() + 5,) * 2)
        before = log.stat().st_size
        held = [connected(address) for _ in range(40)]
        time.sleep(3)
        for connection in held:
            connection.close()
        assert 0 < log.stat().st_size - before < 1000
        assert _answers_again(address)


def _answers_again(address):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with suppress(httpx.HTTPError):
            return httpx.get(f"{address}/robots.txt", timeout=20).status_code == 200
        time.sleep(0.5)
    return False


async def _one_run(address):
    async with client(address) as http:
        assert (await Site(address).generate(http)).token_ids
