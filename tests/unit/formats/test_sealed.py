"""Sealed folders: a byte that changed anywhere is noticed, and said of which file it is."""

from __future__ import annotations

import os
import random
import time
from hashlib import sha256
from pathlib import Path

import pytest
from support.sealing import reseal

from openane.errors import FormatError
from openane.formats import sealed
from openane.formats.sealed import SEAL, AbsentFile, SealedFolder, read_seal, written_seal

FILES = {"manifest.json": b'{"version": 2}', "programs/0.hwx": bytes(range(256)) * 40, "empty": b""}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    (tmp_path / SEAL).write_bytes(written_seal(FILES, said="who wrote it"))
    return tmp_path


def test_what_was_sealed_is_read(folder: Path) -> None:
    found = SealedFolder(folder)
    assert {name: bytes(found.read(name)) for name in found.seal.files} == FILES
    assert found.seal.document["said"] == "who wrote it"
    found.check()
    text = (folder / SEAL).read_bytes().partition(b"\n")[2]
    assert found.seal.digest == sha256(text).hexdigest()
    with pytest.raises(AbsentFile, match=r"model\.mil is missing"):
        found.read("model.mil")


def test_any_changed_byte_is_noticed_and_its_file_named(folder: Path) -> None:
    rng = random.Random(0)
    for _ in range(120):
        name = rng.choice([SEAL, *(name for name in FILES if FILES[name])])
        path = folder / name
        data = path.read_bytes()
        changed = bytearray(data)
        kind, place = rng.randrange(4), rng.randrange(len(data))
        if kind == 0:
            changed[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del changed[place:]
        elif kind == 2:
            changed.insert(place, rng.randrange(256))
        else:
            changed[place:place] = changed[rng.randrange(len(data)):][:64] + b"x"
        path.write_bytes(changed)
        with pytest.raises(FormatError, match=f"{name} was changed"):
            SealedFolder(folder).check()
        path.write_bytes(data)
    SealedFolder(folder).check()


def test_a_change_is_noticed_by_a_process_that_read_the_file_before(folder: Path, monkeypatch: pytest.MonkeyPatch
                                                                    ) -> None:
    """Digests are remembered by what tells a file from others: a change in place, with the same length and the time of
    before, is another file."""
    hashed: list[int] = []
    monkeypatch.setattr(sealed, "sha256", lambda *data: hashed.append(1) or sha256(*data))
    monkeypatch.setattr(sealed, "SETTLED", -1)
    path = folder / "programs" / "0.hwx"
    kept = SealedFolder(folder)
    before = path.stat()
    kept.read("programs/0.hwx")
    once = len(hashed)
    kept.read("programs/0.hwx")
    assert len(hashed) == once
    time.sleep(0.02)  # the system's clock for files moves in steps
    path.write_bytes(FILES["programs/0.hwx"][:-1] + b"?")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(FormatError, match=r"0\.hwx was changed"):
        kept.read("programs/0.hwx")


def test_a_file_that_has_just_changed_is_hashed_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[int] = []
    monkeypatch.setattr(sealed, "sha256", lambda *data: hashed.append(1) or sha256(*data))
    monkeypatch.setattr(sealed, "SETTLED", 1 << 60)
    kept = SealedFolder(folder)
    for _ in range(2):
        kept.read("manifest.json")
    assert len(hashed) == 3  # the seal once


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "", "a/../../b", "a\0b", "\ud800"])
def test_paths_that_leave_the_folder_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / SEAL).write_bytes(written_seal({name: b""}))
    with pytest.raises(FormatError, match="malformed"):
        read_seal(tmp_path / SEAL)


@pytest.mark.parametrize("text", [
    b"", b"{}", b"[]", b'{"files": 3}', b'{"files": {"a": 1}}', b'{"files": {"a": [1]}}', b"[" * 100000, b"\xff",
    b'{"files": {"a": ["x", "y"]}}', b'{"files": {"a": [1e999, 1]}}'])
def test_malformed_seals_are_refused(text: bytes, tmp_path: Path) -> None:
    (tmp_path / SEAL).write_bytes(sha256(text).hexdigest().encode() + b"\n" + text)
    with pytest.raises(FormatError, match="malformed"):
        read_seal(tmp_path / SEAL)


def test_pipes_and_folders_are_not_waited_for(folder: Path) -> None:
    path = folder / "manifest.json"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(OSError, match="no regular file"):
        SealedFolder(folder).read("manifest.json")
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        SealedFolder(folder).read("manifest.json")


def test_no_descriptor_stays_open(folder: Path) -> None:
    kept = SealedFolder(folder)
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0
    for _ in range(50):
        kept.check()
        (folder / "empty").touch()
    assert not before or len(os.listdir("/proc/self/fd")) == before


def test_a_folder_sealed_anew_is_believed(folder: Path) -> None:
    """A digest is no signature: who can write every file can write the seal. Its digest is another, which tells."""
    before = SealedFolder(folder).seal.digest
    (folder / "manifest.json").write_bytes(b"{}")
    reseal(folder)
    assert bytes(SealedFolder(folder).read("manifest.json")) == b"{}"
    assert SealedFolder(folder).seal.digest != before
