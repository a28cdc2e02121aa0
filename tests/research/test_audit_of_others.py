"""The audit of other engines finds their known faults again, and their servers start and end."""

import gc
import json
import sys

import pytest
import transformers

from research.audit import repeats, tiny
from research.audit.__main__ import main
from research.audit.engines import engines
from specdec.exactness.audit import audit
from specdec.exactness.audit.engines import Engine, installed
from specdec.methods import METHODS


def start(name, pair):
    return engines()[name].start(pair)


def verdict_of(name, **settings):
    pair, drafting = tiny.models(name, 8)
    engine = engines(drafting=drafting)[name].start(pair)
    settings = {"decodes": 200, "top_k": 0, "max_new_tokens": 3} | settings
    return audit(engine, pair, tiny.PROMPT, **settings)


def test_the_assistant_of_two_tokenizers_is_wrong_because_its_logits_are_in_another_order(monkeypatch):
    """transformers' universal assisted generation. A false alarm has probability 1e-6.

    It reads a pruned draft's logits in the order of the ids, but the draft's rows are in the order in which
    the tokenizer lists its words. If the words are listed in the order of their ids, the text is right.
    """
    kind = transformers.PreTrainedTokenizerFast
    get_vocab = kind.get_vocab
    in_order = lambda self: dict(sorted(get_vocab(self).items(), key=lambda entry: entry[1]))  # noqa: E731
    against = lambda self: dict(sorted(get_vocab(self).items(), key=lambda entry: -entry[1]))  # noqa: E731
    monkeypatch.setattr(kind, "get_vocab", in_order)
    verdict_of("transformers-universal", max_new_tokens=2, decodes=100).check()  # a doubt would fail it, too
    monkeypatch.setattr(kind, "get_vocab", against)
    assert verdict_of("transformers-universal", max_new_tokens=2).verdict == "wrong"


@pytest.mark.slow
def test_an_ensemble_is_found_and_an_early_exit_is_right():
    """Audits with 200 texts. A false alarm has probability 1e-6."""
    verdict_of("transformers-early-exit").check()
    assert verdict_of("transformers-ensemble").verdict == "wrong"


def test_a_text_for_maintainers_names_the_smallest_vocabulary(tmp_path, capsys, monkeypatch):
    """An engine that writes one of two tokens."""
    broken = Engine("its own", lambda _: lambda prompt_ids, seed, most, *_: [seed % 2] * most, installed())
    path = tmp_path / "posting.md"
    words = ["--engine", "transformers-assisted", "--decodes", "200", "--top-k", "0", "--report", str(path)]
    monkeypatch.setattr("research.audit.__main__.engines", lambda *_: {"transformers-assisted": broken})
    assert main(words) == 1
    text = path.read_text()
    assert "A random model of 3 tokens, prompt [1, 2, 1]" in text
    assert "| [0, 0] | " in text
    assert "def llama(vocab_size: int" in text
    assert "a vocabulary of 3" in capsys.readouterr().out


def test_the_command_writes_its_reports_and_repeats_none(tmp_path, capsys):
    path = tmp_path / "audit.json"
    words = ["--engine", "ours-gsd", "ours-ersd", "--decodes", "100", "--tokens", "2", "--json", str(path)]
    assert main(words) == 0
    assert "ours-ersd: no difference found (torch" in capsys.readouterr().out
    reports = json.loads(path.read_text())
    settings = ("full vocabulary", "top_k 4")
    assert [*reports] == [f"ours-{rule}, {setting}" for rule in ("ersd", "gsd") for setting in settings]
    first = reports["ours-gsd, top_k 4"]
    assert first["verdict"] == "no difference found"
    assert first["tokens_per_call"] > 1
    assert first["trials"][0]["first_seed"] == 0
    assert first["rule"] == METHODS["gsd"].sentence
    assert main(words) == 0
    assert capsys.readouterr().out.count("not audited again") == 4
    assert json.loads(path.read_text()) == reports


@pytest.mark.slow
def test_texts_that_agree_are_counted(monkeypatch, tmp_path):
    """ERSD's texts depend on neither draft nor batch; GSD's depend on the draft. Other rows of the file
    stay."""
    monkeypatch.setattr(repeats, "TOKENS", 8)
    path = tmp_path / "repeats.json"
    path.write_text('{"another": {"of": 3}}')
    repeats.main(["--texts", "3", "--engine", "ours, ERSD", "ours, GSD", "--json", str(path)])
    rows = json.loads(path.read_text())
    ways = ("repeated", "without a draft", "in a batch of 8")
    assert [rows["ours, ERSD"][way] for way in ways] == [3, 3, 3]
    assert rows["ours, GSD"]["without a draft"] < 3
    assert rows["another"] == {"of": 3}


STAND_IN = """#!/bin/sh
exec {python} - "$@" <<'END'
import http.server, sys
{first}
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()
        self.wfile.write(b'{{"tokens": [1, 2, 3]}}')
http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Answers).serve_forever()
END
"""


@pytest.mark.parametrize("first", ["", "sys.exit('no such option')"])
def test_a_server_is_started_on_the_pair_and_ends_with_the_engine(first, tmp_path, monkeypatch):
    program = tmp_path / "llama-server"
    program.write_text(STAND_IN.format(python=sys.executable, first=first))
    program.chmod(0o755)
    monkeypatch.setenv("LLAMA_SERVER", str(program))
    pair = tiny.models("llama.cpp-draft")[0]
    if first:
        with pytest.raises(RuntimeError, match="did not start: no such option"):
            start("llama.cpp-draft", pair)
        return
    engine = start("llama.cpp-draft", pair)
    assert engine([0], 1, 3, 1.0, 0, 1.0) == [1, 2, 3]
    process = engine.process
    del engine
    gc.collect()
    assert process.poll() is not None


def test_a_server_that_is_not_there_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("LLAMA_SERVER", str(tmp_path / "none"))
    with pytest.raises(ModuleNotFoundError, match="set LLAMA_SERVER to its path"):
        start("llama.cpp", tiny.models("llama.cpp")[0])
    assert engines()["llama.cpp"].versions() == {"llama.cpp": "not installed"}
