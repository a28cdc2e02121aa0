"""The command: text with colours or marks, measured numbers, and errors in one line."""

import io
import json
import re
import subprocess
import sys
import threading
from argparse import Namespace
from dataclasses import asdict
from types import SimpleNamespace

import pytest

import specdec
from specdec import loading, waiting
from specdec.__main__ import main
from specdec.commands import columns
from specdec.decoding.fastest import SIZES
from specdec.drafters.catalogue import COPIES, MODEL_AND_COPIES
from specdec.models.progress import Progress
from specdec.settings import SETTINGS
from specdec.terminal import command
from specdec.terminal.printing import harmless, in_colours, painted
from specdec.trace import Generation, Token
from tests.helpers.tiny_checkpoints import tiny_model
from tests.helpers.tokenizers import byte_level_tokenizer

PROMPT = "once upon a time"
REPEATING = "one two three four. one two three four. one two"


@pytest.fixture(scope="module")
def pair():
    tokenizer = byte_level_tokenizer()
    target, draft = (
        tiny_model("llama", vocab_size=len(tokenizer), num_hidden_layers=layers, eos_token_id=0)
        for layers in (2, 1)
    )
    return specdec.ModelPair(target, draft, tokenizer)


@pytest.fixture
def decoded(pair, monkeypatch, capsys):
    monkeypatch.setattr(command, "_loaded", lambda options: pair)

    def run(*arguments, prompt=PROMPT):
        main([prompt, "--tokens", "20", "--topology", "sequence(3)", "--seed", "4", *arguments])
        return capsys.readouterr().out

    return run


def test_marks_around_the_text_of_the_decoder(decoded, pair):
    out = decoded("--method", "gsd")
    settings = {"method": "gsd", "topology": specdec.topology.sequence(3), "max_new_tokens": 20, "seed": 4}
    g = specdec.generate(pair, PROMPT, **settings)
    text, summary = out.rsplit("\n\n", 1)
    assert re.sub("[‹›«»]", "", text) == harmless(g.text)
    residuals = [token for round in g.rounds for token in round.tokens if token.kind == "residual"]
    assert text.count("‹") == sum(bool(harmless(token.text).strip()) for token in residuals)
    assert f"{len(g.token_ids)} tokens in {g.num_target_calls} target calls" in summary
    assert "seed 4" in summary


def test_json_holds_the_record_and_the_numbers(decoded):
    output = json.loads(decoded("--json"))
    generation = Generation.from_json(json.dumps(output["generation"]))
    assert (generation.seed, generation.method, output["tokens"]) == (4, "ersd", len(generation.token_ids))
    assert output["ms_per_token"] > 0
    assert output["acceptance"] == json.loads(json.dumps(asdict(generation.acceptance)))


def test_every_setting_of_the_decoder_is_an_option_with_its_range(decoded):
    values = {"seed": 4, "max_new_tokens": 20, "method": "gsd", "drafter": "copies"}
    values |= {"temperature": 0.5, "top_k": 3, "top_p": 0.25, "draft_temperature": 0.75}
    words = [text for name, value in values.items() for text in (f"--{SETTINGS[name].option}", str(value))]
    record = json.loads(decoded("--json", *words))["generation"]
    assert {name: record[name] for name in SETTINGS} == values
    usage = " ".join(command.parser().format_help().split())
    assert "is the target's temperature (0 to 100; unused with method ar, drafter copies)" in usage
    assert "TEMPERATURE 0 always takes the likeliest token (0 to 100; default: 1.0)" in usage
    assert "the largest number of new tokens (1 or more; default: 100)" in usage


def test_methods_in_columns(decoded):
    lines = decoded("--compare").splitlines()
    assert lines[0].split() == [entry.name for entry in command.METHODS.values()]
    rows = {line[:22].strip(): line[22:].split() for line in lines[1:]}
    assert rows["text of plain decoding"][0] == rows["text of plain decoding"][2] == "yes"
    assert rows["tokens per call"][0] == "1.00"
    entries = json.loads(decoded("--compare", "--json"))
    assert [each["method"] for each in entries] == [*command.METHODS]
    assert [each["method"] for each in entries if each["same_text"]][:2] == ["ar", "ersd"]


def test_the_choice_of_a_tree_is_explained(decoded, capsys):
    decoded("--topology", "auto", "--explain")
    main([PROMPT, "--tokens", "4", "--topology", "auto", "--explain"])
    head, *rows = capsys.readouterr().err.splitlines()[-1 - len(SIZES) :]
    assert head.split()[:3] == ["drafted", "depth", "expected"]
    rates = [float(row.split()[6]) for row in rows]
    (chosen,) = (row for row in rows if row.endswith("chosen"))
    assert float(chosen.split()[6]) == max(rates)
    assert rows[0].split()[:3] == ["0", "0", "1.00"]
    main([PROMPT, "--tokens", "4", "--topology", "auto", "--explain", "--compare"])
    tables = capsys.readouterr().err
    assert tables.count("expected tokens") == tables.count("chosen") == len(command.METHODS) - 1


def test_the_choice_is_explained_with_the_drafted_tokens_of_each_round(pair, monkeypatch, capsys):
    """Copies are drafted in some rounds, whatever tree the times of this machine suggest."""
    monkeypatch.setattr(command, "_loaded", lambda _: pair)
    options = ["--topology", "auto", "--drafter", MODEL_AND_COPIES, "--explain", "--json"]
    main([REPEATING, "--tokens", "40", "--seed", "4", *options])
    out, err = capsys.readouterr()
    rounds = json.loads(out)["generation"]["rounds"]
    drafted = ", ".join(str(len(round["nodes"])) for round in rounds)
    assert f"drafted tokens of each round: {drafted}\n" in err
    assert len({len(round["nodes"]) for round in rounds}) > 1


@pytest.mark.parametrize("drafter", [COPIES, MODEL_AND_COPIES])
def test_drafters_that_copy_have_names(decoded, pair, drafter):
    output = json.loads(decoded("--drafter", drafter, "--json", prompt=REPEATING))
    record = Generation.from_json(json.dumps(output["generation"]))
    assert record.drafter == drafter
    assert any(node.copied for round in record.rounds for node in round.nodes)
    assert record.token_ids == specdec.generate(pair, REPEATING, max_new_tokens=20, seed=4).token_ids


@pytest.mark.parametrize("name", ["auto", "batch(2)", "optimal(3)"])
def test_topologies_have_names(decoded, name):
    assert "target calls" in decoded("--topology", name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "none"], "method = 'none'"),
        (["--topology", "bush"], "topology = 'bush'"),
        (["--topology", "sequence(0)"], "k = 0"),
        (["--tokens", "0"], "max_new_tokens = 0"),
        (["--top-p", "2"], "top_p = 2.0"),
        (["--chat"], "no chat template"),
        (["--tokens", "many"], "argument --tokens: invalid int value: 'many'"),
        (["--bogus"], "unrecognized arguments: --bogus"),
    ],
)
def test_mistakes_are_told_in_a_line_before_anything_is_loaded(decoded, monkeypatch, arguments, message):
    if arguments != ["--chat"]:
        monkeypatch.setattr(command, "_loaded", lambda options: pytest.fail("loaded"))
    with pytest.raises(SystemExit) as error:
        decoded(*arguments)
    assert str(error.value).startswith("error: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_piped_in_is_text_without_its_line_end(monkeypatch, pair, capsys):
    monkeypatch.setattr(command, "_loaded", lambda options: pair)
    for piped, expected in (("Once\n", "Once"), ("a\n\n", "a\n")):
        monkeypatch.setattr(sys, "stdin", io.StringIO(piped))
        main(["--tokens", "2", "--method", "ar", "--json"])
        assert json.loads(capsys.readouterr().out)["generation"]["prompt"] == expected
    wrong = io.TextIOWrapper(io.BytesIO(b"caf\xe9"), encoding="utf-8")
    for piped, message in ((wrong, "the prompt is not utf-8 text"), (io.StringIO(""), "no prompt")):
        monkeypatch.setattr(sys, "stdin", piped)
        with pytest.raises(SystemExit, match=message):
            main([])


@pytest.mark.parametrize(("method", "kinds"), [("gsd", "‹residual›"), ("ersd", "‹correction›"), ("ar", "")])
def test_marks_are_explained_as_far_as_they_are_there(decoded, method, kinds):
    explained = decoded("--method", method).rsplit("\n\n", 1)[1].splitlines()[:-1]
    assert kinds in "".join(explained)
    assert len(explained) == bool(kinds)


def test_other_commands_get_their_arguments(monkeypatch):
    modules, other = [], SimpleNamespace(main=len)
    monkeypatch.setattr(command, "import_module", lambda name: modules.append(name) or other)
    for name in command.COMMANDS:
        with pytest.raises(SystemExit) as error:
            main([name, "--smoke", "x"])
        assert error.value.code == 2
    assert modules == [*command.COMMANDS.values()]


def test_the_page_is_served_from_a_checkout(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "_PAGE", tmp_path / "app.py")
    with pytest.raises(SystemExit, match="checkout"):
        main(["serve"])
    (tmp_path / "app.py").write_text("import sys; sys.exit(' '.join(sys.argv[1:]))")
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(SystemExit, match="--port 1"):
        main(["serve", "--port", "1"])


def test_colours_are_for_terminals_alone(monkeypatch):
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert in_colours(terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not in_colours(terminal)
    kinds = ("accepted", "correction", "bonus", "sampled")
    assert len({painted(Token(0, "x", kind), True) for kind in kinds}) == 4
    assert [painted(Token(0, " x", kind), False) for kind in kinds] == [" x", " ‹x›", " «x»", " x"]


JOINED = ["\u0645\u06cc\u200c\u0631\u0648\u0645", "\u0915\u094d\u200d\u0937", "\u2764\ufe0f", "\u05d0\u200f!"]
JOINED += ["\U0001f468\u200d\U0001f469\u200d\U0001f467", "one\r\ntwo\tthree\r\n"]


@pytest.mark.parametrize("text", JOINED, ids=ascii)
def test_joiners_and_line_ends_are_text(text):
    assert painted(Token(0, text, "sampled"), False) == text
    assert text in painted(Token(0, text, "bonus"), True)


def test_what_commands_the_terminal_or_turns_the_text_is_marked():
    for char in "\x00\x07\x08\x1b\x7f\x9b\u202a\u202e\u2066\u2069\r":
        assert harmless(f"a{char}b") == "a\N{REPLACEMENT CHARACTER}b", ascii(char)
    # a line end in two tokens is one line end
    assert "".join(painted(Token(0, text, "sampled"), False) for text in ("a\r", "\nb")) == "a\nb"


def test_columns_are_as_wide_as_what_they_hold():
    rows = [["", "a"], ["row", "10.5"]]
    assert columns(rows) == "        a\nrow  10.5"
    assert columns(rows, markdown=True) == "|     |    a |\n| --- | ---- |\n| row | 10.5 |"


def test_waiting_is_told_when_it_is_long(monkeypatch, capsys):
    with waiting.Waiting("something short"):
        pass
    monkeypatch.setattr(waiting, "PATIENCE", 0.0)
    with waiting.Waiting("something long") as long:
        long._thread.join(5)
    assert capsys.readouterr().err == "something long ...\n"


def test_loading_says_how_far_it_is(monkeypatch):
    printed = threading.Event()

    class Stream(io.StringIO):
        def flush(self):
            printed.set()

    def slow(target, report):
        report(Progress("fetching", target, 1, 4))
        printed.wait(60)

    monkeypatch.setattr(loading, "load_pair", slow)
    monkeypatch.setattr(waiting, "PATIENCE", 0.05)
    monkeypatch.setattr(sys, "stderr", Stream())
    loading.load_with_progress(Namespace(target="some/model"))
    with pytest.raises(ValueError, match="--pair and --target both name the target"):
        loading.load_with_progress(Namespace(target="some/model", pair="stories"))
    assert sys.stderr.getvalue() == "fetching some/model, 25% ...\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "status", "output"),
    [
        ("{} Once --tokens 3 <&- >&- 2>&-", 0, ""),
        ("{} Once --tokens 0 >&-", 1, ""),
        ('echo "Once upon a time" | {} --tokens 8 --seed 1', 0, "8 tokens in"),
    ],
)
def test_the_command_in_a_pipe_and_with_closed_streams(line, status, output):
    line = line.format(f'"{sys.executable}" -m specdec --pair stories --topology simple')
    process = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=500, check=False)
    assert process.returncode == status
    assert output in process.stdout
    assert "Traceback" not in process.stderr
