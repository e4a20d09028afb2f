"""Configurations: what is wrong is said with its place, and what would pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import pytest
from support.trainings import small, toml, training

from openane.configuration import read_file
from openane.errors import AneError, FormatError
from openane.training.optimisers import AdamW
from openane.training.settings import CHOICES, TABLES, settings, variants

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"training": {"epoch": 3}}, r"training has no key 'epoch'; did you mean 'epochs'\?"),
    ({"training": {"epochs": "3"}}, r"training\.epochs must be a whole number, not str '3'"),
    ({"training": {"epochs": True}}, r"training\.epochs must be a whole number, not bool True"),
    ({"training": {"epochs": 0}}, r"training\.epochs must be at least 1 .*not 0"),
    ({"training": {"clip": float("nan")}}, r"training\.clip must be a finite number"),
    ({"optimiser": {"kind": "adamv"}}, r"optimiser\.kind must be one of sgd, adam, adamw; 'adamv' is not one"),
    ({"optimiser": {"kind": ["sgd"]}}, r"optimiser\.kind must be one of"),
    ({"optimiser": {"kind": "sgd", "beta1": 0.9}}, r"optimiser has no key 'beta1'; it has .*momentum"),
    ({"schedule": {"kind": "step"}}, r"schedule must state every \(every is a whole number\)"),
    ({"engine": {"route": "patches"}}, r"engine\.route must be one of inputs, patch, recompile, not 'patches'"),
    ({"data": {"kind": "text", "files": "a.txt"}}, r"data\.files must be a list, each element a text in quotes"),
    ({"data": {"kind": "text", "files": [3]}}, r"data\.files\[0\] must be a text in quotes, not int 3"),
    ({"optimiser": {"kind": "sgd", "rate": 10**400}}, r"optimiser\.rate must be a finite number, not 1000"),
    ({"training": {"batch": 10**400}}, r"training\.batch must be at least 1 and at most 1.04858e\+06, not 1000"),
    ({"data": {"kind": "tokens", "file": "a\0", "classes": 3}}, r"data\.file must not hold the character NUL"),
    ({"optimiser": {"kind": "adam", "epsilon": 0.0}}, r"optimiser\.epsilon must be at least 1\.2e-38, not 0"),
    ({"modle": {"a": 1}}, r"no table \[modle\]; it has data, model"),
]


@pytest.mark.parametrize(("change", "message"), WRONG, ids=lambda value: str(value)[:40])
def test_mistakes_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        settings(small(**change), Path())


def test_a_table_that_is_none_and_one_that_is_missing() -> None:
    with pytest.raises(FormatError, match=r"training must be a table \(\[training\]\), not int 3"):
        settings(small() | {"training": 3}, Path())
    with pytest.raises(FormatError, match=r"must have a table \[model\], whose kind is one of layers, decoder, file"):
        settings({key: part for key, part in small().items() if key != "model"}, Path())


def test_whole_numbers_are_numbers() -> None:
    made = settings(small(optimiser={"kind": "adamw", "rate": 1}), Path())
    assert made.optimiser == AdamW(rate=1.0)
    assert type(made.optimiser.rate) is float


def test_files_that_are_no_toml(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("[data\n")
    with pytest.raises(FormatError, match=r"c\.toml is no TOML: .*line 1"):
        read_file(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(FormatError, match="not text in UTF-8"):
        read_file(path)
    path.write_text(toml(small()))
    assert read_file(path) == small()


def test_sweeps_are_every_combination() -> None:
    table = small() | {"sweep": {"optimiser.rate": [0.1, 0.2], "training.seed": [1, 2]}}
    made = variants(table)
    assert [name for name, _ in made] == [f"optimiser.rate={rate},training.seed={seed}" for rate in (0.1, 0.2)
                                          for seed in (1, 2)]
    assert made[2][1]["optimiser"] == {"kind": "adamw", "rate": 0.2}
    assert made[2][1]["training"]["seed"] == 1
    assert "sweep" not in made[2][1]
    assert variants(small()) == [("", small())]
    for wrong in ({"rate": [1]}, {"optimiser.rate": 3}, {"optimiser.rate": []}):
        with pytest.raises(FormatError, match=r"TABLE\.KEY"):
            variants(small() | {"sweep": wrong})
    with pytest.raises(FormatError, match=r"sweep\.'optimiser\.rate' has 0\.1 twice"):
        variants(small() | {"sweep": {"optimiser.rate": [0.1, 0.2, 0.1]}})


def test_batches_that_do_not_fit() -> None:
    with pytest.raises(FormatError, match="batch 32 must be a multiple of 5 examples"):
        training(small(training={"micro_batch": 5}))
    with pytest.raises(FormatError, match="batch 4096 is more than the 1437 examples"):
        training(small(training={"batch": 4096}))


LAYERS: list[tuple[list[str], str]] = [
    (["dense 10"], r"model\.layers\[0\] 'dense 10' is no layer; layers are conv OUTPUTS HxW"),
    (["flatten", "linear ten"], r"model\.layers\[1\] 'linear ten': 'ten' is no size"),
    (["flatten", "linear 9"], r"must end with one score per class \(expected \[32, 10\], found \[32, 9\]\)"),
    (["flatten", "conv 3 3x3"], r"model\.layers\[1\] 'conv 3 3x3': conv takes \[N, C, H, W\]"),
    (["max_pool 99x99"], r"model\.layers\[0\] 'max_pool 99x99': "),
    ([""], "is no layer"),
    (["conv 4 99x3"], r"model\.layers\[0\] 'conv 4 99x3': a kernel may have at most 15 taps over 8 elements, not 99"),
    (["flatten", "linear 65536", "linear 4096"], r"weight 'linear2_weight' must have at most .*\[4096, 65536\]"),
]


@pytest.mark.parametrize(("layers", "message"), LAYERS, ids=lambda value: str(value)[:40])
def test_layers_that_are_wrong(layers: list[str], message: str) -> None:
    with pytest.raises(AneError, match=message):
        training(small(model={"kind": "layers", "layers": layers}))


def test_a_decoder_wants_tokens_and_heads_that_divide() -> None:
    with pytest.raises(FormatError, match=r"model\.kind decoder learns from tokens"):
        training(small(model={"kind": "decoder"}))
    with pytest.raises(FormatError, match=r"model\.width must be a multiple of model\.heads 5"):
        training(small(model={"kind": "decoder", "heads": 5}))


NEVER: dict[Any, list[Any]] = {
    int: [-1, 1.5, "x", "", True, [1], {"a": 1}], float: [float("nan"), float("inf"), 10**400, "x", True, [], {"a": 1}],
    str: [1, 1.5, False, ["a"], {"a": 1}, "a\0"], bool: [0, 1.0, "true", [], {"a": 1}], tuple: [1, "a", {"a": 1}, [{}]]}


def keys() -> Iterator[tuple[str, str | None, str, Any]]:
    """Every key of every table: table, kind where it has some, key, type."""
    for name, kinds in CHOICES.items():
        for kind, made in kinds.items():
            yield from ((name, kind, each.name, get_type_hints(made)[each.name]) for each in fields(made))
    for name, made in TABLES.items():
        yield from ((name, None, each.name, get_type_hints(made)[each.name]) for each in fields(made))


@pytest.mark.parametrize(("name", "kind", "key", "hint"), list(keys()))
def test_every_key_refuses_what_it_cannot_be(name: str, kind: str | None, key: str, hint: Any) -> None:
    needed = {"data": {"arrays": {}, "text": {"files": ["a"]}, "tokens": {"file": "a", "classes": 3}},
              "model": {"layers": {"layers": ["flatten"]}, "file": {"file": "a"}}, "schedule": {"step": {"every": 3}}}
    stated = {"kind": kind, **needed.get(name, {}).get(kind, {})} if kind else {}
    for wrong in NEVER[get_origin(hint) or hint]:
        with pytest.raises(FormatError, match=rf"^{name}\.{key}"):
            settings(small() | {name: stated | {key: wrong}}, Path())
    with pytest.raises(FormatError, match=f"{name} has no key '{key}x'; did you mean"):
        settings(small() | {name: stated | {f"{key}x": 1}}, Path())
