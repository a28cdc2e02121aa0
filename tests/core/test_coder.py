"""The pair "coder": its files come from a folder, or from a hub if the user allows the download."""

import hashlib

import pytest

import specdec
from specdec import coder, loading
from tests.helpers.small_hub import serving

CONTENT = b"GGUF" + bytes(range(256)) * 40


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub on this machine with a small file in place of each model, an empty cache, and no folder."""
    monkeypatch.delenv(coder.VARIABLE, raising=False)
    folders = {}
    for role in ("TARGET", "DRAFT"):
        file = getattr(coder, role)._replace(sha256=hashlib.sha256(CONTENT).hexdigest())
        monkeypatch.setattr(coder, role, file)
        folder = folders[file.repository] = tmp_path / role
        folder.mkdir()
        (folder / file.name).write_bytes(CONTENT)
    with serving(folders, monkeypatch, tmp_path / "cache") as hub:
        yield hub


def test_nothing_is_downloaded_unasked(hub):
    with pytest.raises(ValueError, match=r"1\.6 GB .*--download .*SPECDEC_MODELS"):
        specdec.load_pair("coder")
    assert hub.sent == 0


def test_a_folder_with_both_files_needs_no_hub(hub, monkeypatch, tmp_path):
    monkeypatch.setenv(coder.VARIABLE, str(tmp_path))
    (tmp_path / coder.TARGET.name).write_bytes(CONTENT)
    assert coder.installed() is None
    (tmp_path / coder.DRAFT.name).write_bytes(CONTENT)
    assert coder.installed() == (tmp_path / coder.TARGET.name, tmp_path / coder.DRAFT.name)


def test_an_allowed_download_is_told_checked_and_kept(hub):
    reports = []
    paths = loading._ours("coder", True, reports.append)[:2]
    assert [path.read_bytes() for path in paths] == [CONTENT] * 2
    assert reports[-1] == ("fetching", coder.DRAFT.name, len(CONTENT), len(CONTENT))
    num_bytes = hub.sent
    assert loading._ours("coder", False, reports.append)[:2] == paths == coder.installed()
    assert hub.sent == num_bytes


def test_another_content_is_deleted(hub, monkeypatch):
    monkeypatch.setattr(coder, "TARGET", coder.TARGET._replace(sha256="0" * 64))
    with pytest.raises(ValueError, match="is not the file that was expected"):
        loading._ours("coder", True, lambda _: None)
    assert coder.installed() is None
