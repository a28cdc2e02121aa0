"""Bad requests to a running page: `python -m tests.stress.fuzz`, 5,000 of them in some minutes.

Every event, server function and endpoint of the page gets values of the wrong type, out of range, huge,
empty, in odd Unicode, and with markup and templates in them. No answer may show internals, the
server must live, and afterwards generate the text that it generated before.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx

import app
import specdec
from tests.stress.load import alone
from tests.stress.visitors import PLAIN, PROMPT, Site, client, options, serving, stream, write

INTERNALS = re.compile(r"Traceback|File \\?\"/|site-packages|\b[A-Z][A-Za-z]+(?:Error|Exception)\b")
"""Texts that no answer may contain."""
TEXTS = [
    *("", " ", "\x00", "\x1b[31m", "\ud800", "\u202e\u2066", "a\u0300" * 500, "𝔘𝔫𝔦 🏁 ﷽", "\r\n\r\n"),
    *("%s%n{0}", "null", "-1e999", "'; DROP TABLE runs; --", "../../../../etc/passwd", "x" * 100_000),
    *("<img src=x onerror=window.hacked=1>", "</script><script>window.hacked=1</script>"),
    *("${window.hacked=1}", "{{7*7}}", "{% import os %}"),
]
NUMBERS = [
    *(0, -1, 1, 0.5, -0.5, 1e-300, 1e308, float("nan"), float("inf")),
    *(2**31, 2**53 + 1, 2**64, 10**30, -(10**30)),
]
OTHERS = [
    *(None, True, False, [], {}, [[]], [1, "a"], [0] * 5000),
    *({"a": {"b": [None]}}, {"__type__": "update"}),
]
NAMES = [
    *("ersd", "gsd", "ar", "simple", "batch", "specinfer", "optimal", "context", "auto"),
    *("own", "target", "noisy", "uniform"),
]
FIELDS = [
    *("run", "seq", "text", "name", "p", "q", "e", "k", "rates", "weights", "word", "seed", "method"),
    *("sentence", "codec", "races", "acceptance"),
]
"""The fields that server functions read from their one argument."""
STREAMS = ["decode", "compare", "check_losslessness", "load_pair"]


@dataclass
class Found:
    """The number of requests and answers by kind of request. faults must stay empty."""

    sent: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def judge(self, kind: str, answer: str, text: str, body: Any) -> None:
        """Count an answer. An answer that shows internals or a failure of the server is a fault."""
        self.sent[kind] += 1
        self.answers[f"{kind}: {answer}"] += 1
        if answer.startswith("5"):
            self.faults.append(f"{kind}: {answer} {text[:60]!r} to {str(body)[:120]!r}")
        if match := INTERNALS.search(text):
            self.faults.append(f"{kind}: {text[max(0, match.start() - 60) :][:160]!r} to {str(body)[:120]!r}")


class Fuzzer:
    """Draws requests for one page and sends them. The same seed draws the same requests."""

    def __init__(self, site: Site, http: httpx.AsyncClient, seed: int):
        self.site, self.http, self.random, self.found = site, http, random.Random(seed), Found()
        self.questions = [*app.build().functions]
        self.streams = itertools.cycle(STREAMS)  # in turn, so that no stream is left out
        frequent = [*3 * [self.decode], *3 * [self.question], *2 * [self.positional]]
        self.kinds = [*frequent, self.stream, self.compare]

    def value(self) -> Any:
        """A value that no visitor would send, or a valid name."""
        return self.random.choice(self.random.choice([TEXTS, NUMBERS, OTHERS, NAMES]))

    def spoiled(self, values: dict[str, Any]) -> dict[str, Any]:
        """A copy with one to three values replaced."""
        count = self.random.randint(1, 3)
        return values | {name: self.value() for name in self.random.sample(list(values), count)}

    async def one(self) -> None:
        """Send one request of a random kind. Its answer must come within a minute."""
        send = self.random.choice(self.kinds)
        try:
            await asyncio.wait_for(send(), 60)
        except TimeoutError:
            self.found.faults.append(f"{send.__name__}: no answer within a minute")
        except httpx.RemoteProtocolError as error:
            self.found.faults.append(f"{send.__name__}: the server hung up: {error}")

    async def decode(self) -> None:
        """Decode with random settings, as the button Generate does."""
        await self._stream("decode", self.spoiled(self.site.defaults | PLAIN | {"max_new_tokens": 2}))

    async def compare(self) -> None:
        """Compare."""
        column = {"name": "a", "method": "ersd", "topology": "sequence", "k": 2, "draft": "own"}
        request = {"prompt": PROMPT, "seed": 1, "max_new_tokens": 2, "temperature": 1, "reference": True}
        request = self.spoiled(request | {"columns": [self.spoiled(column)]})
        await self._stream("compare", {"asked": self.random.choice([request, self.value()])})

    async def stream(self) -> None:
        """Any stream of the page with any values, also under names that the stream does not have."""
        name = next(self.streams)
        await self._stream(name, {key: self.value() for key in self.random.sample(FIELDS, 4)})

    async def _stream(self, name: str, values: Any) -> None:
        texts, last = [], "nothing"
        most = self.random.choice([1, 3, 10**9, 10**9])  # some visitors leave early
        async for kind, message in stream(self.http, name, values):
            texts.append(str(message))
            last = kind
            if len(texts) >= most:
                break
        self.found.judge(name, texts[-1][:3] if last == "refused" else last, " ".join(texts), values)

    async def question(self) -> None:
        """A panel's question."""
        some = {key: self.value() for key in self.random.sample(FIELDS, 4)}
        value = self.random.choice([some, some, self.value()])
        await self._post("question", f"/ask/{self.random.choice(self.questions)}", value)

    async def positional(self) -> None:
        """Generate by plain HTTP, with the values in their order."""
        plain = list((self.site.defaults | PLAIN | {"max_new_tokens": 2}).values())
        most = self.random.choice([*[len(plain)] * 3, 3, 0])
        data = list(self.spoiled(dict(enumerate(plain))).values())[:most]
        answer = await self._post("positional", "/gradio_api/call/decode", {"data": data})
        if answer.status_code == 200:
            path = f"/gradio_api/call/decode/{answer.json()['event_id']}"
            self.found.judge("positional", "stream", (await self.http.get(path)).text, data)

    async def _post(self, kind: str, path: str, body: Any) -> httpx.Response:
        headers = {"content-type": "application/json"}
        answer = await self.http.post(path, content=json.dumps(body).encode(), headers=headers)
        self.found.judge(kind, str(answer.status_code), answer.text, body)
        return answer


async def fuzz(site: Site, requests: int, seed: int = 0, at_once: int = 8) -> Found:
    """Send this many requests, a few at a time."""
    async with client(site.address, keep=0) as http:
        fuzzer, numbers = Fuzzer(site, http, seed), iter(range(requests))

        async def worker() -> None:
            for number in numbers:
                await fuzzer.one()
                if number % 500 == 499:
                    print(f"{number + 1} of {requests}, {len(fuzzer.found.faults)} faults", flush=True)

        await asyncio.gather(*(worker() for _ in range(at_once)))
        return fuzzer.found


async def generates(site: Site, pair: Any) -> bool:
    """Whether the page still generates the decoder's text."""
    async with client(site.address) as http:
        visit = await site.generate(http, seed=11)
    return not visit.failure and visit.token_ids == alone(pair, visit)


def main() -> None:
    """Serve, send, check that the server lives, and write the report."""
    sizes = {"requests": (5000, "how many"), "seed": (0, "of the requests")}
    arguments = options("Bad requests to a running page.", "fuzz.json", **sizes)
    pair = specdec.load_pair("stories")
    with serving() as (address, process):
        site, start = Site(address), time.monotonic()
        before = process.memory_info().rss
        counts = asyncio.run(fuzz(site, arguments.requests, arguments.seed))
        report = {
            "requests": counts.sent.total(),
            "seconds": time.monotonic() - start,
            "sent": dict(counts.sent.most_common()),
            "answers": dict(sorted(counts.answers.items())),
            "faults": counts.faults,
            "same_text_afterwards": asyncio.run(generates(site, pair)),
            "server_megabytes": {"before": before >> 20, "after": process.memory_info().rss >> 20},
        }
    write(arguments.out, report)


if __name__ == "__main__":
    main()
