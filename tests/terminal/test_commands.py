"""Commands end with one line, an exit code, and without a traceback."""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentTypeError

import pytest

from specdec.commands import ended, to_write


def run(code: str, **options) -> subprocess.CompletedProcess[str]:
    """A command with this body."""
    program = f"from specdec.commands import ended\nwith ended():\n    {code}"
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("raise ValueError('k = 0')", 1, "error: k = 0\n"),
        ("open('/nowhere/x')", 1, "error: /nowhere/x: No such file or directory\n"),
        ("raise KeyboardInterrupt", 130, ""),
        ("raise KeyboardInterrupt('kept')", 130, "kept\n"),
        ("raise SystemExit(3)", 3, ""),
        (
            "from specdec.commands import Parser; Parser().parse_args(['x'])",
            1,
            "error: unrecognized arguments: x\n",
        ),
        ("pass", 0, ""),
    ],
)
def test_how_it_ends(code, status, said):
    result = run(code)
    assert (result.returncode, result.stderr) == (status, said)


def test_what_the_terminal_can_t_write_is_a_question_mark():
    result = run("print('«a» ‹b›')", env={"PYTHONIOENCODING": "latin-1"}, encoding="latin-1")
    assert (result.returncode, result.stdout) == (0, "«a» ?b?\n")


@pytest.mark.parametrize("code", ["print('x' * 10**6)", "print('x')"])
def test_a_reader_that_goes_away_is_no_error(code):
    program = f"from specdec.commands import ended\nwith ended():\n    input(); {code}"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    process.stdin.write(b"\n")
    process.stdin.close()
    assert (process.stderr.read(), process.wait(60)) == (b"", 0)
    process.stderr.close()


def test_other_errors_are_ours_and_keep_their_traceback():
    with pytest.raises(RuntimeError), ended():
        raise RuntimeError


def test_files_that_can_t_be_written_are_refused_at_the_start(tmp_path):
    assert to_write(str(tmp_path / "new.json")) == tmp_path / "new.json"
    for path in (tmp_path, tmp_path / "missing" / "new.json"):
        with pytest.raises(ArgumentTypeError, match=path.name):
            to_write(str(path))
