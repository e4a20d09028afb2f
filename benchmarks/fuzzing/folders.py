"""Targets: bundles and entries of the cache, file by file, and their seals."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

import openane as ane
from fuzzing.files import Target, small_graph
from fuzzing.mutants import of_bytes, of_json, of_text, one_of
from openane.compiler import Model
from openane.compiler.artifact.bundle import model_files, read_model
from openane.compiler.artifact.cache_program import read_cached, write_cached
from openane.formats.bundled import bundled_programs
from openane.formats.sealed import SEAL, SealedFolder


def _parts(files: Mapping[str, bytes], number: int = 0) -> list[bytes]:
    """A seed for each file: the number of its folder, its name, and its bytes."""
    return [f"{number}:{name}\0".encode() + data for name, data in files.items()]


def _opened(data: bytes) -> tuple[int, str, bytes]:
    name, _, content = data.partition(b"\0")
    number, _, path = name.decode().partition(":")
    return int(number), path, content


def _part(data: bytes, draw: random.Random) -> bytes:
    name, _, content = data.partition(b"\0")
    how = (of_json if name.endswith(b".json") else of_text if name.endswith(b".mil") else of_bytes)
    return name + b"\0" + how(content, draw)


def bundle(folder: Path) -> Target:
    """A file of a bundle, sealed as it is, so that the digest is right: what its reader makes of it."""
    model = ane.compile(small_graph("host"), allow_host=True, cache=False)
    several = ane.compile_for(small_graph("weights"), "h15,h16", cache=False)
    held = [model_files(each) for each in (model, several)]
    seeds = [part for number, files in enumerate(held) for part in _parts(files, number)]

    def read(data: bytes) -> object:
        number, path, content = _opened(data)
        found = read_model((held[number] | {path: content}).__getitem__)
        return found.graph, [function.patchable.routes for function in found.functions.values()
                             if function.patchable is not None]

    return Target(seeds, _part, read)


def cache_entry(folder: Path) -> Target:
    """A file of an entry of the cache of compiled models, as its reader gets it once its digest is right."""
    graph = small_graph("conv")
    files = model_files(ane.compile(graph, cache=False), graphs=False, write=write_cached)

    def mutant(data: bytes, draw: random.Random) -> bytes:
        name, _, content = data.partition(b"\0")
        head, line, rest = content.partition(b"\n")
        if b"programs/" in name and draw.random() < 0.7:
            return name + b"\0" + of_json(head, draw) + line + rest
        return _part(data, draw)

    def read(data: bytes) -> object:
        _, path, content = _opened(data)
        return read_model((files | {path: content}).__getitem__, {"main": graph}, read_cached)

    return Target(_parts(files), mutant, read)


def seal(folder: Path) -> Target:
    """The seal of a bundle, with a digest that fits, and a byte of its files without: nothing else may be read."""
    place = folder / "sealed"
    ane.compile(small_graph("add"), cache=False).save(place)
    before = (place / SEAL).read_bytes()
    names = sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file())
    seeds = [before, *(name.encode() + b"\0" + (place / name).read_bytes() for name in names)]

    def mutant(data: bytes, draw: random.Random) -> bytes:
        if data != before or draw.random() < 0.1:
            return of_bytes(data, draw)
        text = one_of(of_json, of_text)(data.partition(b"\n")[2], draw)
        return sha256(text).hexdigest().encode() + b"\n" + text

    def read(data: bytes) -> object:
        name, zero, content = data.partition(b"\0")
        changed = name.decode(errors="replace") if zero and name.decode(errors="replace") in names else SEAL
        kept = (place / changed).read_bytes()
        content = content if changed != SEAL or (zero and name == SEAL.encode()) else data
        (place / changed).write_bytes(content)
        try:
            for one in SealedFolder(place).seal.files:
                SealedFolder(place).read(one)
            list(bundled_programs(place))
            model = Model.load(place)
            if content != kept and changed != SEAL:
                raise AssertionError(f"{changed} was changed and is read")
            return model
        except OSError as error:  # a seal may name any file
            return error
        finally:
            (place / changed).write_bytes(kept)

    return Target(seeds, mutant, read)


TARGETS: dict[str, Callable[[Path], Target]] = {"bundle": bundle, "cache-entry": cache_entry, "seal": seal}
