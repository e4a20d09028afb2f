"""New constants for what is loaded: bit for bit what loading the new model gives, on every device, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import openane as ane
from openane.chips import get_chip
from openane.compiler import Model
from openane.compiler.patch_model import PatchedModel
from openane.devices.constants import BLOCK, differing
from openane.devices.linux.executable import LinuxExecutable
from openane.devices.simdriver.engine import SimulatedEngine
from openane.engine import Coefficients, NeuralOperation, Packing
from openane.errors import DeviceError, DeviceRejected, SimulationError, UnsupportedError, VerifyError
from openane.ops.build import GraphBuilder
from openane.program import Program
from openane.program.patch import meets
from openane.program.verify import verify
from openane.program.verify.constants import ConstantRules
from openane.simulator.coefficients import Gather
from openane.simulator.neural_engine import WeightedTask

DEVICES = ("simulator", "simulator?arithmetic=exact", "linux?driver=simulated&mode=strict",
           "linux?driver=simulated&mode=faithful")
SHAPES = {"stem": (16, 8, 3, 3), "stem_bias": (16,), "first": (64, 256), "first_bias": (64,), "shift": (64,),
          "second": (24, 64), "second_bias": (24,)}
Arrays = dict[str, np.ndarray]


def drawn(seed: int, scale: float = 0.1) -> Arrays:
    """Weights for the model."""
    rng = np.random.default_rng(seed)
    return {name: (rng.standard_normal(shape) * scale).astype(np.float16) for name, shape in SHAPES.items()}


@pytest.fixture(scope="module")
def model() -> Model:
    """A strided convolution (zero-skipping streams), a table, dense weights, and a vector the planar engine reads."""
    builder, weights = GraphBuilder("updated"), drawn(0)
    given_ = {name: builder.constant(array, name) for name, array in weights.items()}
    x = builder.input("x", "fp16", (2, 8, 8, 8))
    y = builder.single("conv", x=x, weight=given_["stem"], bias=given_["stem_bias"], strides=[2, 2], pad_type="custom",
                       pad=[1, 1, 1, 1])
    y = builder.single("reshape", x=builder.single("relu", x=y), shape=[2, 256])
    y = builder.single("gelu", x=builder.single("linear", x=y, weight=given_["first"], bias=given_["first_bias"]),
                       mode="EXACT")
    y = builder.single("softmax", x=builder.single("mul", x=y, y=given_["shift"]), axis=-1)
    made = ane.compile(builder.finish({"y": builder.single("linear", x=y, weight=given_["second"],
                                                           bias=given_["second_bias"])}))
    packings = {held.packing for _, held in coefficients(made.programs[0])}
    assert packings == {Packing.DENSE, Packing.SPARSE}, "both kinds are to be tested"
    assert any(held.table for _, held in coefficients(made.programs[0]))
    return made


def coefficients(program: Program) -> Iterator[tuple[int, Coefficients]]:
    """Tasks with constant coefficients."""
    for index, task in enumerate(program.tasks):
        operation = get_chip(program.chip).operation(task.words)
        if isinstance(operation, NeuralOperation) and operation.coefficients is not None:
            yield index, operation.coefficients


def patched(model: Model, arrays: Arrays) -> Model:
    """The model with other weights, in place."""
    made: PatchedModel = model.patch(arrays)
    assert not made.recompiled, made.recompiled
    return made.model


X = {"x": np.random.default_rng(9).standard_normal((2, 8, 8, 8)).astype(np.float16)}


@pytest.mark.parametrize("name", DEVICES)
def test_the_results_are_those_of_the_model_loaded_anew(name: str, model: Model) -> None:
    with ane.open_device(name) as device, device.load(model) as executable:
        first = executable.run(X)["y"]
        current = model
        for seed, names in ((1, tuple(SHAPES)), (2, ("second",)), (3, ("stem", "shift")), (4, ("first_bias",))):
            weights = drawn(seed, scale=0.2)
            current = patched(current, {each: weights[each] for each in names})
            executable.update_constants(current)
            found = executable.run(X)["y"]
            with device.load(current) as anew:
                assert (found == anew.run(X)["y"]).all()
            assert (found != first).any()
        executable.update_constants(model)
        assert (executable.run(X)["y"] == first).all()


@pytest.mark.parametrize("name", ["simulator", "simulator?verify=off", "simulator?arithmetic=exact"])
def test_before_the_first_run_too(name: str, model: Model) -> None:
    """The weights of a verified program are unpacked when it is run first; new ones may come before that."""
    weights = drawn(3, scale=0.2)
    with ane.open_device(name) as device, device.load(model) as executable:
        current = patched(model, {each: weights[each] for each in ("second", "stem")})
        executable.update_constants(current)
        found = executable.run(X)["y"]
        with device.load(current) as anew:
            assert (found == anew.run(X)["y"]).all()


def test_weights_are_unpacked_by_the_first_run(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked: list[object] = []
    kept = Gather.read_weights
    monkeypatch.setattr(Gather, "read_weights", lambda *given: (unpacked.append(given), kept(*given))[1])
    with ane.open_device("simulator") as device, device.load(model) as executable:
        assert not unpacked
        first = executable.run(X)["y"]
        seen = len(unpacked)
        assert seen
        assert (executable.run(X)["y"] == first).all()
        assert len(unpacked) == seen
    with ane.open_device("simulator?verify=off") as device, device.load(model) as executable:
        assert len(unpacked) == 2 * seen, "nobody has looked at what is not verified: it is unpacked when it is loaded"
        assert (executable.run(X)["y"] == first).all()


def test_states_and_bound_memory_stay(model: Model) -> None:
    program = model.programs[0]
    with ane.open_device("linux?driver=simulated") as device, device.load(program) as executable:
        port = program.inputs[0]
        memory = device.allocate(port.size)
        executable.bind(port.name, memory)
        memory[:] = 0x11
        executable.update_constants(patched(model, drawn(5)).programs[0].constants)
        assert (memory == 0x11).all()
        executable.execute()
        assert executable.report.seconds > 0


def test_only_tasks_whose_weights_changed_are_prepared_again(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    reloaded: list[WeightedTask] = []
    kept = WeightedTask.reload
    monkeypatch.setattr(WeightedTask, "reload", lambda task: (reloaded.append(task), kept(task))[1])
    with ane.open_device("simulator") as device, device.load(model) as executable:
        executable.update_constants(patched(model, {"second": drawn(6)["second"]}))
        assert len(reloaded) < len(list(coefficients(model.programs[0])))
        assert reloaded
        reloaded.clear()
        executable.update_constants(patched(model, {"second": drawn(6)["second"]}))  # the same again
    assert not reloaded


def test_the_driver_prepares_nothing_anew(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    with ane.open_device("linux?driver=simulated") as device, device.load(model) as executable:
        executable.run(X)
        monkeypatch.setattr(SimulatedEngine, "prepare", lambda *given: pytest.fail("a submission was prepared anew"))
        executable.update_constants(patched(model, drawn(7)))
        executable.run(X)


def test_constants_that_others_change_are_still_noticed(model: Model) -> None:
    with ane.open_device("linux?driver=simulated") as device, device.load(model.programs[0]) as made:
        assert isinstance(made, LinuxExecutable)
        made.update_constants(patched(model, drawn(7)).programs[0].constants)
        made.execute()
        commands = made._commands  # nobody else reaches this memory but by a mistake of the engine's
        assert commands is not None
        commands._command.array()[commands._behind] ^= 1
        with pytest.raises(DeviceRejected, match="no longer what was verified"):
            made.execute()


def sparse_length(program: Program) -> int:
    """Where the first zero-skipping stream states its length."""
    held = next(each for _, each in coefficients(program) if each.packing is Packing.SPARSE)
    return held.weights.streams.start + 2 * held.lanes * (held.bias is not None)


def table(program: Program) -> int:
    """Where the first table lies."""
    return next(each.table.streams.start for _, each in coefficients(program) if each.table)


@pytest.mark.parametrize("name", ["simulator", "linux?driver=simulated"])
@pytest.mark.parametrize("place", [sparse_length, table])
def test_what_has_a_form_is_looked_at_again(name: str, place: Callable[[Program], int], model: Model) -> None:
    program = model.programs[0]
    broken = bytearray(patched(model, drawn(8)).programs[0].constants)
    start = place(program)
    broken[start:start + 128] = b"\xff" * 128
    with ane.open_device(name) as device, device.load(model) as loaded:
        before = loaded.run(X)["y"]
        other = replace(model, programs=(replace(program, constants=bytes(broken)),))
        with pytest.raises(VerifyError, match="described form"):
            loaded.update_constants(other)
        assert (loaded.run(X)["y"] == before).all()


def test_unverified_programs_keep_their_constants_too(model: Model) -> None:
    program = model.programs[0]
    broken = bytearray(program.constants)
    start = sparse_length(program)
    broken[start:start + 3] = b"\xff\xff\xff"
    with ane.open_device("simulator?verify=off") as device, device.load(model) as loaded:
        before = loaded.run(X)["y"]
        with pytest.raises(SimulationError, match="past the end"):
            loaded.update_constants(replace(model, programs=(replace(program, constants=bytes(broken)),)))
        assert (loaded.run(X)["y"] == before).all()
        loaded.update_constants(patched(model, drawn(11)))
        assert (loaded.run(X)["y"] != before).any()


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_short_check_agrees_with_the_verifier(model: Model, data: st.DataObject) -> None:
    """Whatever bytes change, the rules of constants alone find what verifying the whole program finds."""
    program = model.programs[0]
    made = bytearray(program.constants)
    near = data.draw(st.sampled_from([0, sparse_length(program), table(program)]))
    for _ in range(data.draw(st.integers(1, 6))):
        place = min(near + data.draw(st.integers(0, 300)), len(made) - 1)
        made[place] = data.draw(st.integers(0, 255))
    constants = bytes(made)
    found = ConstantRules(program).violations(constants, differing(program.constants, constants))
    try:
        verify(replace(program, constants=constants))
        whole: tuple[object, ...] = ()
    except VerifyError as error:
        whole = error.violations
    assert found == whole


def test_refusals(model: Model) -> None:
    program = model.programs[0]
    with ane.open_device("simulator") as device:
        with device.load(program) as executable:
            with pytest.raises(DeviceError, match="bytes of constants, not 3"):
                executable.update_constants(b"abc")
            with pytest.raises(DeviceError, match="not list"):
                executable.update_constants([1])  # type: ignore[arg-type]
            data = program.constants
            for other in (memoryview(bytearray(data)), memoryview(data * 2)[::2], memoryview(data * 2).cast("H"),
                          memoryview(data * 3).cast("B", (len(data), 3))):
                with pytest.raises(DeviceError, match="nobody can write"):
                    executable.update_constants(other)
        with pytest.raises(DeviceError, match="closed"):
            executable.update_constants(program.constants)
        with device.load(model) as loaded:
            shorter = replace(model, programs=(replace(program, tasks=program.tasks[:-1]),))
            with pytest.raises(DeviceError, match="its tasks differ"):
                loaded.update_constants(shorter)
            with pytest.raises(DeviceError, match="steps of"):
                loaded.update_constants(replace(model, programs=(program, program)))
            with pytest.raises(DeviceError, match="functions"):
                loaded.update_constants(replace(model, name="another"))
            with pytest.raises(DeviceError, match="not of Program"):
                loaded.update_constants(program)  # type: ignore[arg-type]
    with ane.open_device("macos?runtime=simulated&worker=off") as mac, mac.load(model) as loaded, \
            pytest.raises(UnsupportedError, match="no way to change them"):
        loaded.update_constants(model)


@pytest.mark.parametrize("name", ["simulator", "linux?driver=simulated"])
def test_runs_see_all_of_the_new_constants_or_none(name: str, model: Model) -> None:
    other = patched(model, drawn(12, scale=0.3))
    with ane.open_device(name) as device, device.load(model) as executable, ThreadPoolExecutor(2) as pool:
        known = []
        for each in (other, model):
            executable.update_constants(each)
            known.append(executable.run(X)["y"].tobytes())
        runs = [pool.submit(executable.run, X) for _ in range(12)]
        for turn in range(12):
            executable.update_constants((other, model)[turn % 2])
        assert all(run.result()["y"].tobytes() in known for run in runs)


@given(st.sets(st.integers(0, 40)), st.integers(0, 40), st.integers(0, 40))
def test_ranges_meet_where_they_share_a_byte(marked: set[int], low: int, high: int) -> None:
    edges = sorted(marked)[:len(marked) // 2 * 2]
    ranges = list(zip(edges[::2], edges[1::2], strict=True))
    shared = any(start <= place < end for start, end in ranges for place in range(low, high))
    assert meets(ranges, low, max(low, high)) == shared or low >= high


def test_constants_in_memory_of_others_are_left_alone(model: Model) -> None:
    shared = bytearray(model.programs[0].constants)
    program = replace(model.programs[0], constants=memoryview(shared))
    with ane.open_device("simulator?verify=off") as device, device.load(program) as executable:
        executable.update_constants(patched(model, drawn(4)).programs[0].constants)
    assert shared == model.programs[0].constants


@given(st.integers(0, 3 * BLOCK + 7), st.lists(st.tuples(st.integers(0, 3 * BLOCK + 6), st.integers(0, 255))))
def test_every_byte_that_differs_is_in_a_range(size: int, changes: list[tuple[int, int]]) -> None:
    before = bytes(size)
    after = bytearray(before)
    for place, number in changes:
        if place < size:
            after[place] = number
    ranges = differing(before, bytes(after))
    inside = np.zeros(size, bool)
    for low, high in ranges:
        assert 0 <= low < high <= size
        assert after[low:high] != bytes(high - low)
        inside[low:high] = True
    assert not any(number and not inside[place] for place, number in enumerate(after))
    assert all(first[1] < second[0] for first, second in pairwise(ranges))
