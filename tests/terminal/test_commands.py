"""Commands end with one line, an exit code, and without a traceback."""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentTypeError
from functools import partial
from io import BytesIO, TextIOWrapper

import pytest

from specdec.commands import Parser, to_write, without_traceback


def raising(error):
    raise error


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (partial(raising, ValueError("k = 0")), "error: k = 0", ""),
        (partial(open, "/nowhere/x"), "error: /nowhere/x: No such file or directory", ""),
        (partial(raising, KeyboardInterrupt()), 130, ""),
        (partial(raising, KeyboardInterrupt("kept")), 130, "kept\n"),
        (partial(raising, SystemExit(3)), 3, ""),
        (partial(Parser().parse_args, ["x"]), "error: unrecognized arguments: x", ""),
    ],
)
def test_how_it_ends(body, code, message, capsys):
    """Python prints a text as the code of an exit, and ends with 1."""
    with pytest.raises(SystemExit) as end, without_traceback():
        body()
    assert (end.value.code, capsys.readouterr().err) == (code, message)


def test_what_the_terminal_can_t_write_is_a_question_mark(monkeypatch):
    terminal = TextIOWrapper(BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", terminal)
    with without_traceback():
        print("«a» ‹b›")
    assert terminal.buffer.getvalue().decode("latin-1") == "«a» ?b?\n"


@pytest.mark.parametrize("code", ["print('x' * 10**6)", "print('x')"])
def test_a_reader_that_goes_away_is_no_error(code):
    program = (
        f"from specdec.commands import without_traceback\nwith without_traceback():\n    input(); {code}"
    )
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen([sys.executable, "-c", program], **streams)
    process.stdout.close()
    process.stdin.write(b"\n")
    process.stdin.close()
    assert (process.stderr.read(), process.wait(60)) == (b"", 0)
    process.stderr.close()


def test_other_errors_are_ours_and_keep_their_traceback():
    with pytest.raises(RuntimeError), without_traceback():
        raise RuntimeError


def test_files_that_can_t_be_written_are_refused_at_the_start(tmp_path):
    assert to_write(str(tmp_path / "new.json")) == tmp_path / "new.json"
    for path in (tmp_path, tmp_path / "missing" / "new.json"):
        with pytest.raises(ArgumentTypeError, match=path.name):
            to_write(str(path))
