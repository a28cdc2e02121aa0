"""A cache folder is used only where no other user can have written to it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from specdec.private_cache import VARIABLE, make_private, private_folder

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has no owners and modes of files")
NOBODY = 65534
SPECDEC = ["specdec", "specdec/models", "specdec/models/sub", "specdec/models/sub/code"]
"""A folder below the folder of all caches."""


@pytest.fixture
def base(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "caches"))
    return tmp_path / "caches"


@pytest.fixture
def folder(base):
    """A folder that is in use, with a file and a folder in it."""
    folder = private_folder("models")
    (folder / "sub").mkdir(mode=0o755)
    (folder / "sub" / "code").write_text("")
    make_private(folder)
    assert private_folder("models") == folder == base / "specdec" / "models"
    return folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_and_files_are_for_their_user_alone(base):
    """Folders that earlier versions made have the mode 0755. Files may be written under any umask."""
    folder = private_folder("models")
    assert {mode(path) for path in (folder, base, base / "specdec")} == {0o700}
    folder.chmod(0o755)
    (folder / "more").write_text("")
    (folder / "more").chmod(0o666)
    make_private(folder)
    assert private_folder("models") == folder
    assert (mode(folder), mode(folder / "more")) == (0o700, 0o600)


@pytest.mark.parametrize("place", [".", *SPECDEC])
def test_nothing_is_cached_where_others_can_write(folder, base, place, caplog):
    path = base / place
    for bit in (0o020, 0o002):
        path.chmod(mode(path) | bit)
        assert private_folder("models") is None
        assert str(path) in caplog.text
        assert "other users can write" in caplog.text
        path.chmod(mode(path) & ~bit)
        assert private_folder("models") == folder
    base.chmod(0o1777)  # as with /tmp: the sticky bit keeps others from replacing our folder
    assert private_folder("models") == folder


@pytest.mark.parametrize("place", ["nowhere", ".", *SPECDEC])
def test_nothing_is_cached_where_files_are_another_user_s(folder, base, place, caplog, monkeypatch):
    """Or this process runs as another user than the folder's owner. This test needs no superuser."""
    path = base / place
    if place == "nowhere":
        monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    else:
        try:
            os.chown(path, NOBODY, -1)
        except PermissionError:
            pytest.skip("only the superuser can give files away")
    assert private_folder("models") is None
    assert f"{'' if place == 'nowhere' else path} belongs to another user" in caplog.text


@pytest.mark.parametrize("place", SPECDEC)
def test_a_link_is_not_followed(folder, base, place, tmp_path, caplog):
    link = base / place
    link.rename(tmp_path / "elsewhere")
    link.symlink_to(tmp_path / "elsewhere")
    assert private_folder("models") is None
    assert "is a link" in caplog.text


def test_a_link_above_the_caches_is_followed_and_checked(folder, base, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(base)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "link"))
    assert private_folder("models") == folder
    base.chmod(0o777)
    assert private_folder("models") is None


def test_nothing_is_cached_where_nothing_can_be_made(base, caplog):
    base.write_text("")  # not even the superuser can make a folder in a file
    assert private_folder("models") is None
    assert VARIABLE in caplog.text
