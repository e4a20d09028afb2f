"""Routes in files: they come back as they were, and what is malformed raises a typed error and writes nowhere else."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.h13 import LIMITS

import openane as ane
from openane.compiler import Model, compile
from openane.compiler.artifact.bundle import model_files, read_model
from openane.compiler.patch.routes_json import FILE, VERSION, read_routes
from openane.compiler.patch_model import in_place, patch, rewritten
from openane.compiler.weights.layout_records import Picked, Routes
from openane.ops.build import GraphBuilder

ROUNDS = 400
VALUES = [None, 0, -1, 1, 3, 64, 2 ** 31 - 1, 2 ** 40, 2 ** 70, "", "w", [], [1], [0.5], {}, 1.5, float("inf"),
          float("nan"), True, "dense", "sparse", "rows", "mul", [0, [1, 1, 1], [0, 0, 0]], [[2, 2], "0"]]


@cache
def network() -> Model:
    """Dense, zero-skipping and laid out anew; a norm folded and one that stands alone; rows."""
    rng = np.random.default_rng(0)
    builder = GraphBuilder()

    def drawn(name: str, *shape: int) -> Any:
        return builder.constant(rng.uniform(0.1, 1, shape).astype(np.float16), name)

    def norm(x: Any, name: str) -> Any:
        parts = {part: drawn(f"{name}_{part}", x.shape[1]) for part in ("mean", "variance", "gamma", "beta")}
        return builder.single("batch_norm", x=x, **parts)

    x = builder.input("x", "fp16", (1, 8, 12, 12))
    y = norm(builder.single("concat", values=(x, builder.single("tanh", x=x)), axis=np.int32(1)), "alone")
    for name, taps, stride in (("dense", 3, 1), ("sparse", 3, 2), ("anew", 4, 3)):
        y = builder.single("conv", x=y, weight=drawn(name, 16, 16, taps, taps), bias=drawn(f"{name}_bias", 16),
                           strides=[stride, stride], pad_type="custom", pad=[1, 1, 1, 1])
        y = norm(builder.single("relu", x=y) if name == "anew" else y, name)
    y = builder.single("add", x=y, y=drawn("table", *y.shape))
    return compile(builder.finish({"y": y}), precision="as-is")


def constants(model: Model) -> dict[str, np.ndarray]:
    return {value.name: value.data for node in model.graph.nodes for value in node.values()
            if isinstance(value.data, np.ndarray) and value.data.dtype.kind == "f" and value.data.size > 1}


def test_routes_come_back() -> None:
    model = network()
    assert model.patchable is not None
    routes = model.patchable.routes
    again = read_routes(model_files(model)[FILE], model.name, model.programs, LIMITS)
    assert (again.constants, again.complete) == (routes.constants, routes.complete)
    kinds = set()
    for one, other in zip(routes.routes, again.routes, strict=True):
        assert (one.sources, one.extents, one.steps) == (other.sources, other.extents, other.steps)
        for piece, known in zip(one.pieces, other.pieces, strict=True):
            kinds.add((str(piece.form), type(piece.weights).__name__))
            if isinstance(piece.weights, Picked) and isinstance(known.weights, Picked):
                assert np.array_equal(piece.weights.numbers, known.weights.numbers)
            else:
                assert piece == known
    assert kinds >= {("dense", "WeightView"), ("sparse", "WeightView"), ("rows", "WeightView"), ("dense", "Picked")}


def test_another_version_is_done_without_and_says_so(tmp_path: Path) -> None:
    model = network()
    files = model_files(model)
    document = json.loads(files[FILE])
    new = {"dense": constants(model)["dense"] * np.float16(0.5)}
    for changed, why in (({FILE: json.dumps({**document, "version": VERSION + 1}).encode()}, "version 2"), ({}, "no ")):
        old = read_model({name: data for name, data in {**files, **changed}.items()
                          if name != FILE or changed}.__getitem__)
        assert why in in_place(old, new)
        patched = patch(old, new)
        assert why in patched.recompiled
        assert [p.constants for p in patched.model.programs] == [p.constants for p in model.patch(new).model.programs]
        assert not patch(patched.model, new).recompiled


def changed(document: Any, rng: random.Random) -> Any:
    """The document with one value replaced, deep inside."""
    inner = document
    while True:
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        key = rng.choice(keys)
        if isinstance(inner[key], dict | list) and inner[key] and rng.random() < 0.9:
            inner = inner[key]
            continue
        inner[key] = rng.choice(VALUES)
        return document


def test_changed_routes_raise_nothing_but_typed_errors() -> None:
    model, rng = network(), random.Random(1)
    files, arrays = model_files(model), constants(model)
    refused = taken = 0
    for _ in range(ROUNDS):
        text = json.dumps(changed(json.loads(files[FILE]), rng)).encode()
        loaded = read_model({**files, FILE: text}.__getitem__)
        try:
            found = rewritten(loaded, arrays)
            taken += found is not None
            for old, new in zip(model.programs, found.model.programs if found else (), strict=False):
                assert len(old.constants) == len(new.constants)
        except ane.AneError:
            refused += 1
    assert refused > ROUNDS // 3
    assert taken


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"version": 1}', b'{"version": true}', b"\xff", b"[" * 100000,
                                  b'{"version": 1, "functions": {"main": {"constants": 3, "routes": []}}}'])
def test_what_is_no_file_of_routes(data: bytes) -> None:
    with pytest.raises(ane.FormatError, match=FILE):
        read_routes(data, "main", network().programs, LIMITS)


def test_routes_of_another_model_are_refused() -> None:
    """A constant that is not the one the routes state."""
    files = model_files(network())
    document = json.loads(files[FILE])
    for entry in document["functions"]["main"]["constants"]:
        entry[0] = entry[0].replace("dense_gamma", "nothing")
    loaded = read_model({**files, FILE: json.dumps(document).encode()}.__getitem__)
    with pytest.raises(ane.FormatError, match="routes are those of another model"):
        patch(loaded, {"dense": constants(network())["dense"]})


def test_no_routes_no_file() -> None:
    assert Routes().of(frozenset({"w"})) == ()
