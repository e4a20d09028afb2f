"""Programs on the Linux backend: buffers that persist, and mutants, of which what the verifier takes does no harm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
from support.h13 import layout_of
from support.mutants import mutants
from support.verifier_programs import base_programs, surface

import openane as ane
from openane.chips import get_chip
from openane.devices.linux.device import LinuxDevice
from openane.devices.simdriver import SimDriver, SimKernel
from openane.engine import Binary, Elementwise
from openane.errors import AneError, VerifyError
from openane.program import Buffer, Program, Role, Task
from openane.simulator import load

LAYOUT = layout_of((1, 4, 1, 3, 32))
MUTANTS = 200


def adder() -> Program:
    """y = x + state."""
    x, state, y = (surface(slot, LAYOUT.shape) for slot in (4, 5, 6))
    tasks = get_chip("h13").emit([Elementwise(first=x, second=state, result=y, function=Binary.ADD)])
    buffers = [Buffer(name, slot, role, LAYOUT.size, LAYOUT) for name, slot, role in
               (("x", 4, Role.INPUT), ("state", 5, Role.STATE), ("y", 6, Role.OUTPUT))]
    return Program("h13", tuple(Task(t.words, t.offset) for t in tasks), buffers=tuple(buffers))


@pytest.mark.parametrize("device", ["simulator", "linux?driver=simulated", "linux?driver=simulated&mode=faithful"])
def test_buffers_persist_and_are_patched_bound_and_shared(device: str) -> None:
    x = np.random.default_rng(0).standard_normal((1, 4, 3, 32)).astype(np.float16)
    with ane.open_device(device) as opened:
        memory = opened.allocate(LAYOUT.size)
        first, second = opened.load(adder()), opened.load(adder(), {"state": memory})
        np.testing.assert_array_equal(first.run({"x": x})["y"], x)
        first.patch("state", np.full(32, 2), (0, slice(1, 3), 0, 1))
        patched = np.zeros_like(x)
        patched[0, 1:3, 1] = 2
        np.testing.assert_array_equal(first.run({"x": x})["y"], x + patched)
        waiting = [first.submit({"x": x * np.float16(k)}) for k in range(4)]
        for k, each in enumerate(waiting):
            np.testing.assert_array_equal(each.result()["y"], x * np.float16(k) + patched)
        first.bind("state", memory)
        np.testing.assert_array_equal(first.run({"x": x})["y"], x)
        second.patch("state", np.ones((1, 4, 1, 3, 32)))
        np.testing.assert_array_equal(first.run({"x": x.astype(np.float32)})["y"], x + np.float16(1))
        assert first.report.conversions == ("x: float32 rounded to fp16",)
        first.close()
        np.testing.assert_array_equal(second.run({"x": x})["y"], x + np.float16(1))


def filled(buffers: Mapping[str, np.ndarray]) -> None:
    """Small whole numbers everywhere, the same in every memory."""
    for index, name in enumerate(sorted(buffers)):
        store = buffers[name]
        halves = np.random.default_rng(index).integers(-4, 4, store.size // 2).astype(np.float16)
        store[:2 * halves.size] = halves.view(np.uint8)


def test_what_the_verifier_takes_does_no_harm() -> None:
    """The strict driver has nothing to complain about, and every byte behind every slot is the simulator's."""
    seen: Counter[str] = Counter()
    with SimDriver("strict", "fast") as driver, LinuxDevice(SimKernel(driver), "/dev/accel/accel0", "linux:0",
                                                            simulated="a driver") as device:
        for mutant in mutants(base_programs(), MUTANTS, 5):
            try:
                verified = ane.verify(mutant.program)
            except AneError:
                seen["refused"] += 1
                continue
            try:
                executable = device.load(verified)
            except VerifyError as error:
                pytest.fail(f"{mutant.base}, {mutant.what}: {error}")
            with executable:
                stores = executable.stores()  # type: ignore[attr-defined]
                filled(stores)
                executable.execute()
                loaded = load(mutant.program, "fast")
                filled(loaded.buffers)
                loaded.run()
                for name, wanted in loaded.buffers.items():
                    assert stores[name].tobytes() == wanted.tobytes(), f"{mutant.base}, {mutant.what}: {name}"
            assert driver.reports == (), f"{mutant.base}, {mutant.what}"
            seen["run"] += 1
    assert min(seen.values()) > MUTANTS // 10
