"""The cache of compiled models: entries are whole or absent, whoever writes, is killed, or runs out of space."""

from __future__ import annotations

import errno
import json
import os
import random
import sys
import time
from hashlib import sha256
from pathlib import Path

import pytest
from support.killing import run_and_kill

from openane.cache import RECORD, Cache, default_folder
from openane.cli import main

KEY = "ab" * 32
OTHER = "cd" * 32
FILES = {"manifest.json": b"{}", "programs/0.hwx": b"x" * 5000}
ROUNDS = int(os.environ.get("OPENANE_CACHE_ROUNDS", "8"))
"""Kills in the test of killed writers; 100 take about a minute."""


def test_what_is_put_is_found(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "deep" / "cache")
    assert cache.get(KEY) is None
    assert cache.put(KEY, FILES, "a model")
    assert cache.put(KEY, {"other": b""})  # the first stays
    assert cache.get(KEY) == FILES
    [entry] = cache.entries()
    assert (entry.key, entry.label, entry.size) == (KEY, "a model", 5002)
    assert [path.name for path in cache.folder.iterdir()] == [KEY]


@pytest.mark.parametrize("name", [RECORD, "programs/0.hwx", "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "changed", "gone", "longer"])
def test_a_damaged_entry_is_dropped(name: str, damage: str, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, FILES)
    file = tmp_path / KEY / name
    data = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes({"cut": data[:-1], "changed": data[:1] + b"?" + data[2:], "longer": data + b"?"}[damage])
    assert cache.get(KEY) is None
    assert list(tmp_path.iterdir()) == []
    assert cache.put(KEY, FILES)
    assert cache.get(KEY) == FILES


def test_changed_entries_are_told_with_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                  capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ANE_CACHE", str(tmp_path))
    cache = Cache()
    for key in (KEY, OTHER):
        cache.put(key, FILES)
    assert cache.damaged() == {}
    assert main(["cache", "check"]) == 0
    assert "2 compiled models as written, 0 changed" in capsys.readouterr().out
    (tmp_path / KEY / "programs" / "0.hwx").write_bytes(b"y" + FILES["programs/0.hwx"][1:])
    assert main(["cache", "check"]) == 1
    text = capsys.readouterr().out
    assert "1 compiled model as written, 1 changed" in text
    assert f"{KEY}/programs/0.hwx was changed (expected SHA-256 " in text
    assert main(["cache", "check", "--json"]) == 1
    assert list(json.loads(capsys.readouterr().out)["damaged"]) == [KEY]
    assert cache.get(KEY) is None
    assert cache.damaged() == {}


def test_an_entry_under_another_key_is_not_believed(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, FILES)
    (tmp_path / KEY).rename(tmp_path / OTHER)
    assert cache.get(OTHER) is None


def test_a_full_disk_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    cache = Cache(tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    assert not cache.put(KEY, FILES)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    file = tmp_path / "file"
    file.write_bytes(b"")
    assert not Cache(file / "below").put(KEY, FILES)
    assert Cache(file / "below").get(KEY) is None
    assert Cache(file / "below").entries() == []


def test_pruning_by_size_and_age(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    keys = [digit * 64 for digit in "0123"]
    for age, key in enumerate(keys):
        cache.put(key, {"data": bytes(100)})
        used = time.time() - 1000 * age
        os.utime(tmp_path / key / RECORD, (used, used))
    (tmp_path / "not ours").mkdir()
    assert [entry.key for entry in cache.entries()] == keys
    assert [entry.key for entry in cache.prune(age=2500)] == [keys[3]]
    cache.get(keys[2])  # used now
    assert {entry.key for entry in cache.prune(size=200)} == {keys[1]}
    assert len(cache.clear()) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["not ours"]


def test_adding_prunes_and_sweeps_what_killed_writers_left(tmp_path: Path) -> None:
    left = tmp_path / f".{KEY}.x1"
    left.mkdir()
    os.utime(left, (1, 1))
    cache = Cache(tmp_path, limit=1000)
    cache.put(KEY, {"data": bytes(800)})
    cache.put(OTHER, {"data": bytes(800)})
    assert not left.exists()
    assert len(cache.entries()) == 1


def test_the_folder_is_the_one_the_environment_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ANE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "openane"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder() == tmp_path / ".cache" / "openane"
    monkeypatch.setenv("ANE_CACHE", str(tmp_path / "x"))
    assert Cache().folder == tmp_path / "x"


def test_the_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ANE_CACHE", str(tmp_path))
    Cache().put(KEY, FILES, "main for h13")
    assert main(["cache"]) == 0
    text = capsys.readouterr().out
    assert "1 compiled model kept" in text
    assert "main for h13" in text
    assert main(["cache", "prune", "--size", "1K", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert ([entry["key"] for entry in document["removed"]], document["entries"]) == ([KEY], [])
    assert main(["cache", "clear"]) == 0
    for arguments in (["prune"], ["list", "--size", "1M"], ["prune", "--size", "many"], ["prune", "--age", "3w"]):
        assert main(["cache", *arguments]) == 2
        assert "error: " in capsys.readouterr().err


WRITER = """
import os, sys
from openane.cache import Cache
cache = Cache(__import__("pathlib").Path(sys.argv[1]))
data = bytes(range(256)) * 4096
files = {f"programs/{n}.hwx": data[n:] for n in range(6)}
print("ready", flush=True)
while True:
    found = cache.get(sys.argv[2])
    if found is not None and found != files:
        sys.exit(7)
    if found is None:
        cache.put(sys.argv[2], files)
    else:
        cache.drop(sys.argv[2])
"""


def test_killed_writers_leave_no_torn_entry(tmp_path: Path) -> None:
    """Two processes make, read and drop one entry; each is killed at a random moment, over and over."""
    rng = random.Random(0)
    cache = Cache(tmp_path)
    for _ in range(ROUNDS):
        run_and_kill([[sys.executable, "-c", WRITER, str(tmp_path), KEY]] * 2, rng, 0.15,
                     "a writer saw an entry it had not written")
        kept = (tmp_path / KEY).exists()
        found = cache.get(KEY)
        assert not kept or found is not None, "a torn entry lay under its name"
        assert found is None or {len(data) for data in found.values()} == {256 * 4096 - n for n in range(6)}
    cache.clear()
    assert list(tmp_path.iterdir()) == []


def test_digests_are_sha256(tmp_path: Path) -> None:
    Cache(tmp_path).put(KEY, FILES)
    digest, _, text = (tmp_path / KEY / RECORD).read_bytes().partition(b"\n")
    assert digest.decode() == sha256(text).hexdigest()
