"""What the compiler makes is what tests/guard_digests.txt lists: some of its programs here, all in benchmarks/guard.py;
and the guard notices whatever changes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import guard
import numpy as np
import pytest
from guarded.differences import described
from guarded.digests import LISTED, Digest, compared, read_digests, written
from guarded.graphs import chain, graphs
from guarded.groups import GROUPS, NotHere, digests, makers
from guarded.kept import NEEDED, keep, kept, reference
from guarded.numbers import Numbers
from models import NETWORKS
from support.random_operands import HOST_ALONE

from openane.chips import get_chip
from openane.compiler import Model, compile
from openane.engine import DType
from openane.ops import all_ops
from openane.program import Buffer, Program, Role, Task

ALL = read_digests()
SOME = {
    "graphs": sorted({name for name, _ in ALL if name.startswith("graphs/")})[::5],
    "networks": ["networks/squeezenet"],
    "training": ["training/digits_step_patch", "training/weights_conv", "training/gradient_rnn"],
    "language": ["language/llama_decode_32", "language/bert_encode_16"],
    "records": ["records/binary_add_1x64x8x8", "records/conv_k1_c64_n64_s8_bias0_relu", "records/layer_norm_1x64x8x8"],
}
"""What is compared here, in seconds."""


@pytest.mark.parametrize("group", [group for group in SOME if group != "records"])
def test_what_the_compiler_makes_is_what_is_listed(group: str) -> None:
    hold(group)


@pytest.mark.usefixtures("corpus")
def test_what_it_makes_of_records_is_what_is_listed() -> None:
    assert set(makers("records")) == {name for name, _ in ALL if name.startswith("records/")}
    hold("records")


def hold(group: str) -> None:
    expected = {key: digest for key, digest in ALL.items() if key[0] in SOME[group]}
    differences = compared(expected, dict(digests(group, SOME[group])))
    assert not differences, "\n".join(["benchmarks/guard.py says which tasks differ:", *map(str, differences)])
    assert {name for name, _ in expected} == set(SOME[group])


def test_the_programs_are_those_that_are_listed() -> None:
    for group in GROUPS.keys() - {"records"}:
        assert set(makers(group)) == {name for name, _ in ALL if name.startswith(f"{group}/")}
    assert {name.partition("/")[0] for name, _ in ALL} == set(GROUPS)


def test_the_networks_are_those_of_the_benchmark() -> None:
    assert {f"networks/{name}" for name in NETWORKS} == set(makers("networks"))


def test_small_graphs_use_every_operation() -> None:
    used = {node.op for make in graphs().values() for node in make().nodes}
    assert used - {"read_state", "write_state"} == set(all_ops()) - set(HOST_ALONE)


def test_numbers_are_fixed() -> None:
    """The first numbers of each kind: other ones would be another list."""
    assert Numbers("a", 1).integers(0, 1000, 4).tolist() == [527, 622, 214, 349]
    assert Numbers("a", 1).uniform(-1, 1, 2).tolist() == [0.3893890380859375, 0.6669464111328125]
    assert Numbers("a", 1).exact((2, 1), 0.5).tolist() == [[-0.27001953125], [0.1708984375]]
    assert Numbers("a", 1).standard_normal(1).tolist() == [0.41573063403546795]
    drawn = Numbers("a").standard_normal(1 << 14)
    assert abs(drawn.mean()) < 0.03
    assert abs(drawn.std() - 1) < 0.03
    twice = Numbers("a")
    assert (twice.integers(0, 9, 50) != twice.integers(0, 9, 50)).any()


@pytest.fixture(scope="module")
def model() -> Model:
    """Several inputs, tasks of both engines, constants."""
    return compile(chain(["conv", "sigmoid", "mul", "avg_pool"]))


def with_program(model: Model, change: Callable[[Program], Program]) -> Model:
    return replace(model, programs=(change(model.program), *model.programs[1:]))


def with_task(model: Model, number: int, change: Callable[[Task], Task]) -> Model:
    tasks = list(model.program.tasks)
    tasks[number] = change(tasks[number])
    return with_program(model, lambda program: replace(program, tasks=tuple(tasks)))


def with_buffer(model: Model, change: Callable[[Buffer], Buffer]) -> Model:
    first, *others = model.program.buffers
    return with_program(model, lambda program: replace(program, buffers=(change(first), *others)))


def differing(before: Model, after: Model) -> list[str]:
    return Digest.of(before).differences(Digest.of(after))


def test_every_word_counts(model: Model) -> None:
    for number, task in enumerate(model.program.tasks):
        for place in range(0, len(task.words), 1 if number == 0 else 20):
            words = (*task.words[:place], task.words[place] ^ 1 << place % 32, *task.words[place + 1:])
            other = with_task(model, number, lambda task, words=words: replace(task, words=words))
            assert differing(model, other) == ["words"]


def test_place_order_and_number_of_tasks_count(model: Model) -> None:
    moved = with_task(model, 1, lambda task: replace(task, offset=task.offset + 0x100))
    turned = with_program(model, lambda program: replace(program, tasks=program.tasks[::-1]))
    fewer = with_program(model, lambda program: replace(program, tasks=program.tasks[:-1]))
    assert differing(model, moved) == differing(model, turned) == ["words"]
    assert differing(model, fewer) == ["tasks", "words"]


def test_every_byte_of_constants_counts(model: Model) -> None:
    constants = bytes(model.program.constants)
    assert constants
    for place in (0, len(constants) // 2, len(constants) - 1):
        other = bytearray(constants)
        other[place] ^= 1
        assert differing(model, with_constants(model, bytes(other))) == ["constants"]
    assert differing(model, with_constants(model, constants + b"\0")) == ["constants"]
    assert differing(model, with_constants(model, memoryview(constants))) == []


def with_constants(model: Model, constants: bytes | memoryview) -> Model:
    return with_program(model, lambda program: replace(program, constants=constants))


def test_everything_of_a_buffer_counts(model: Model) -> None:
    layout = model.program.buffers[0].layout
    assert layout is not None
    others = [{"name": "z"}, {"slot": 30}, {"size": 1 << 20}, {"role": Role.STATE}, {"layout": None},
              {"layout": replace(layout, strides=(0, *layout.strides[1:]))},
              {"layout": replace(layout, shape=(9, *layout.shape[1:]))},
              {"layout": replace(layout, dtype=DType.INT8)}, {"layout": replace(layout, interleave=4)}]
    for other in others:
        assert differing(model, with_buffer(model, lambda b, other=other: replace(b, **other))) == ["buffers"], other


def test_ports_programs_and_steps_count(model: Model) -> None:
    first, *more = model.inputs
    assert differing(model, replace(model, inputs=(*more, first))) == ["buffers"]
    assert differing(model, replace(model, inputs=(replace(first, dtype="fp32"), *more))) == ["buffers"]
    assert differing(model, replace(model, programs=model.programs * 2)) == \
        ["tasks", "steps", "words", "constants", "buffers"]
    hosted = compile(chain(["one_hot"]), allow_host=True)
    assert hosted.host_steps
    assert differing(hosted, replace(hosted, steps=())) == ["steps", "buffers"]
    assert differing(model, replace(model, name="other")) == ["buffers"]
    assert differing(model, model.with_functions([replace(model, name="other")])) == \
        ["tasks", "steps", "graph", "words", "constants", "buffers"]


def test_the_graph_counts_but_no_name_in_it(model: Model) -> None:
    nodes = tuple(replace(node, name=f"{node.name}_other", source="elsewhere") for node in model.graph.nodes)
    assert differing(model, replace(model, source=replace(model.graph, nodes=nodes))) == []
    assert differing(model, replace(model, source=replace(model.graph, nodes=nodes[:-1]))) == ["graph"]
    constant = next(value for node in nodes for value in node.values() if isinstance(value.data, np.ndarray))
    changed = [replace(node, operands={name: replace(given, data=given.data + 1) if given is constant else given
                                       for name, given in node.operands.items()}) for node in nodes]
    assert differing(model, replace(model, source=replace(model.graph, nodes=tuple(changed)))) == ["graph"]


def test_names_on_one_side_and_refusals_are_differences() -> None:
    one, other = ALL["graphs/abs", "h13"], ALL["graphs/add", "h13"]
    listed = {("graphs/a", "h13"): one, ("graphs/b", "h13"): one, ("graphs/c", "h13"): one, ("graphs/d", "h13"): one}
    found = {("graphs/b", "h13"): one, ("graphs/c", "h13"): other, ("graphs/d", "h13"): "is refused: no",
             ("graphs/b", "h14"): one}
    assert list(map(str, compared(listed, found))) == [
        "graphs/a for h13: is listed, but there is no such program any more", "graphs/b for h14: is not listed",
        "graphs/c for h13: the graph that is compiled is another one: tasks 1 -> 2, graph, words, buffers differ",
        "graphs/d for h13: is refused: no"]


def test_the_list_is_sorted_and_read_as_written() -> None:
    assert written(ALL) == LISTED.read_text()
    assert written(dict(reversed(ALL.items()))) == LISTED.read_text()
    assert all(line == "" or line.startswith("#") or len(line.split()) == 8 for line in written(ALL).split("\n"))


def test_a_difference_names_task_and_field(model: Model) -> None:
    chip, task = get_chip("h13"), model.program.tasks[1]
    fields = chip.decode(task.words)
    name = "Common.OutDim.W"
    words = chip.encode(replace(fields, values={**fields.values, name: fields.values[name] + 1}))
    wide = with_task(model, 1, lambda task: replace(task, words=words))
    line, = described(model.programs, wide.programs)
    assert line == f"1 task differs, first task 1: {name} {fields.values[name]} -> {fields.values[name] + 1}"
    assert any(name in line for line in described(model.programs, wide.programs, full=True))


def test_a_difference_names_constants_buffers_and_programs(model: Model) -> None:
    other = bytearray(model.program.constants)
    other[0] ^= 1
    line, = described(model.programs, with_constants(model, bytes(other)).programs)
    assert line.startswith("constants differ in 1 place, first ")
    line, = described(model.programs, with_buffer(model, lambda buffer: replace(buffer, size=1 << 20)).programs)
    assert line.startswith("buffers differ in 1 place, first ")
    assert " -> 1048576" in line
    fewer = with_program(model, lambda program: replace(program, tasks=program.tasks[:-1]))
    assert "which is removed" in next(described(model.programs, fewer.programs))
    assert list(described(model.programs, model.programs * 2)) == ["1 program before, 2 now"]
    assert "ports" in next(described(model.programs, model.programs))


def test_kept_programs_are_read_as_they_were(model: Model, tmp_path: Path) -> None:
    key = "graphs/a+b", "h13"
    keep(tmp_path, key, model)
    assert kept(tmp_path, key) == (Digest.of(model), list(model.programs))
    assert kept(tmp_path, ("graphs/a", "h13")) is None


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A list of two programs, one of which is not what it says."""
    path = tmp_path / "digests.txt"
    digest = ALL["graphs/add", "h13"]
    path.write_text(written({("graphs/abs", "h13"): ALL["graphs/abs", "h13"],
                             ("graphs/add", "h13"): replace(digest, words="0" * 12)}))
    monkeypatch.setattr(guard, "LISTED", path)
    monkeypatch.delenv("OPENANE_CORPUS", raising=False)
    return path


def test_the_command_compares_and_lists(listed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert guard.main(["graphs/abs"]) == 0
    assert capsys.readouterr().out == "guard  graphs    1 program, 1 as listed\n"
    assert guard.main(["graphs/a[bd][sd]", "records", "--brief"]) == 1
    out = capsys.readouterr().out
    assert "records   not compared: OPENANE_CORPUS is not set" in out
    assert "graphs    2 programs, 1 as listed, 1 not\nguard  graphs/add for h13: words differ\n" in out
    assert guard.main(["graphs/add", "graphs/relu", "--write"]) == 0
    assert read_digests(listed) == {(f"graphs/{name}", "h13"): ALL[f"graphs/{name}", "h13"]
                                    for name in ("abs", "add", "relu")}
    assert guard.main(["graphs/no_such"]) == 2


def test_a_program_that_is_refused_is_not_listed(listed: Path, capsys: pytest.CaptureFixture[str],
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    before = listed.read_text()
    monkeypatch.setattr("guarded.graphs.HOSTED", ())
    assert guard.main(["graphs/one_hot", "--write"]) == 1
    assert "graphs/one_hot for h13: is refused: one_hot" in capsys.readouterr().err
    assert listed.read_text() == before


OLD = """
import os, pathlib, sys
assert os.environ["PYTHONPATH"] == str(pathlib.Path(__file__).parents[1] / "src")
(pathlib.Path(sys.argv[2]) / "told").write_text(" ".join(sys.argv[3:]) + " STATE")
"""


def test_the_reference_is_the_commit_that_listed_the_digests(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        with pytest.raises(NotHere, match="git log fails"), reference(["a"], tmp_path):
            pass
        return

    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e", *arguments], check=True,
                       capture_output=True)

    def state(name: str) -> None:
        (tmp_path / "benchmarks" / "guard.py").write_text(OLD.replace("STATE", name))

    for needed in NEEDED:
        (tmp_path / needed).mkdir()
        (tmp_path / needed / "file").write_text("")
    git("init")
    with pytest.raises(NotHere, match="git log fails"), reference(["a"], tmp_path):
        pass
    state("first")
    (tmp_path / "tests" / LISTED.name).write_text("digests")
    for name in ("second", "third"):
        git("add", "-A")
        git("commit", "-m", name)
        state(name)
    with reference(["graphs/a", "graphs/b"], tmp_path) as (_, folder):
        assert (folder / "told").read_text() == "graphs/a graphs/b first"
    assert not folder.exists()
    (tmp_path / "tests" / LISTED.name).write_text("other digests")
    state("import nothing_there #")
    git("add", "-A")
    git("commit", "-m", "fourth")
    with reference([], tmp_path) as (_, folder):
        assert (folder / "told").exists()
