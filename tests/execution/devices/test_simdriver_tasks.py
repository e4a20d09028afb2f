"""How the simulated engine finds its tasks, and when it looks at them again."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from support.driver_client import LAYOUT, Client, X, Y, access, addition, program
from support.refusals import refused
from support.verifier_programs import base_programs

from openane.chips import get_chip
from openane.devices.linux.interface import Submit
from openane.devices.simdriver import DriverError, FaultReport, ReportKind, SimDriver, SimKernel
from openane.devices.simdriver.chain import queue_word
from openane.devices.simdriver.driver import MODES, PAGE
from openane.program import Program
from openane.simulator import load

EVERYTHING = base_programs()


@pytest.fixture
def strict() -> Iterator[SimDriver]:
    with SimDriver("strict") as driver:
        yield driver


@pytest.fixture
def faithful() -> Iterator[SimDriver]:
    with SimDriver("faithful") as driver:
        yield driver


@pytest.mark.parametrize("mode", MODES)
def test_chains_that_lead_astray(mode: str) -> None:
    with SimDriver(mode) as driver:
        client = Client(SimKernel(driver), program(addition(), addition(first=access(Y), result=access(X))))
        client.tensor("state")[...] = 1
        client.submit()
        assert (client.tensor("x") == 2).all()
        refused(client, errno.ETIMEDOUT, ReportKind.CHAIN, replace(client.request, task_count=3))
        refused(client, errno.ETIMEDOUT, ReportKind.CHAIN, replace(client.request, task_count=0x10000))
        first = client.request.first_task_size
        refused(client, errno.ETIMEDOUT, ReportKind.DESCRIPTOR, replace(client.request, first_task_size=first - 4))
        client.tensor("x")[...] = 7
        client.submit(replace(client.request, task_count=1))  # inferred: the engine counts
        assert ((client.tensor("y") == 8) & (client.tensor("x") == 7)).all()
        client.submit()
        client.arrays["commands"][client.program.tasks[1].offset:] = 0
        refused(client, errno.ETIMEDOUT, ReportKind.DESCRIPTOR)
        client.close()


def relinked(**changes: int) -> Program:
    """Two tasks, fields of the first one's and (LAST_...) the last one's header changed."""
    chip, loaded = get_chip("h13"), program(addition(), addition(first=access(Y), result=access(X)))
    tasks = []
    for place, task in zip(("FIRST_", "LAST_"), loaded.tasks, strict=True):
        fields = chip.decode(task.words)
        values = {f"Header.{name.removeprefix(place).replace('_', '.')}": value for name, value in changes.items()
                  if name.startswith(place)}
        tasks.append(replace(task, words=chip.encode(replace(fields, values={**fields.values, **values}))))
    return replace(loaded, tasks=tuple(tasks))


@pytest.mark.parametrize(("loaded", "strict_kind", "faithful_kind"), [
    (relinked(FIRST_Bases_TBase=9), ReportKind.UNBOUND, ReportKind.UNMAPPED),
    (relinked(FIRST_Bases_TBaseEn=0), ReportKind.DESCRIPTOR, ReportKind.DESCRIPTOR),
    (relinked(FIRST_NextPointer_Offset=3 * PAGE + 16), ReportKind.BOUNDS, ReportKind.DESCRIPTOR),
    (relinked(FIRST_NextPointer_Offset=1 << 30), ReportKind.BOUNDS, ReportKind.UNMAPPED),
    (relinked(FIRST_Bases_RBase0En=0), ReportKind.DESCRIPTOR, ReportKind.DESCRIPTOR),
], ids=["unbound", "no slot", "another buffer", "nowhere", "operand without a slot"])
def test_tasks_fetched_from_elsewhere(loaded: Program, strict_kind: ReportKind, faithful_kind: ReportKind) -> None:
    for mode, kind in (("strict", strict_kind), ("faithful", faithful_kind)):
        with SimDriver(mode) as driver:
            client = Client(SimKernel(driver), loaded)
            refused(client, errno.EFAULT if kind in (ReportKind.BOUNDS, ReportKind.UNBOUND) else errno.ETIMEDOUT, kind)
            client.close()


@pytest.mark.parametrize("mode", MODES)
def test_chains_that_do_not_end(mode: str) -> None:
    second = relinked().tasks[1]
    loop = relinked(LAST_NextPointer_Offset=second.offset, LAST_Next_NextSize=len(second.words) - 1,
                    LAST_Bases_TBaseEn=1)
    with SimDriver(mode) as driver:
        client = Client(SimKernel(driver), loop)
        assert "comes back to" in str(refused(client, errno.ETIMEDOUT, ReportKind.CHAIN,
                                              replace(client.request, task_count=0xFFFF)))
        client.close()


def test_a_first_task_larger_than_the_bootstrap(strict: SimDriver, faithful: SimDriver) -> None:
    for driver, code, kind in ((strict, errno.EFAULT, ReportKind.BOUNDS),
                               (faithful, errno.ETIMEDOUT, ReportKind.DESCRIPTOR)):
        client = Client(SimKernel(driver), program())
        larger = replace(client.request, first_task_size=client.request.first_task_size + 4)
        refused(client, code, kind, larger)
        client.close()


def test_bootstraps_that_are_no_copy(strict: SimDriver) -> None:
    """They are executed: what an engine does with them is not known."""
    client = Client(SimKernel(strict), program(addition()))
    client.submit(replace(client.request, bootstrap=client.handles["commands"]))
    client.arrays["commands"][4:8] += 1  # the compiler's estimate
    client.submit()
    texts = [report.text.split(",")[0] for report in strict.reports
             if isinstance(report, FaultReport) and report.kind is ReportKind.BOOTSTRAP]
    assert texts == ["its network number is 0x0", "the bootstrap is no copy of the first of the commands"]
    client.close()


def test_the_queue_takes_what_fits_its_word() -> None:
    request = Submit(task_count=3, first_task_size=0x274)
    assert queue_word(request) == (0x274 // 4, 3)
    assert queue_word(replace(request, task_count=0x4_0003)) == (0x274 // 4, 3)  # a bit that is set already
    assert queue_word(replace(request, task_count=0x2_0003)) == (0x274 // 4 + 2, 3)
    assert queue_word(replace(request, first_task_size=0x274 + 0x800)) == (0x274 // 4, 3)
    assert queue_word(replace(request, first_task_size=1)) == (512, 3)


@pytest.mark.parametrize("mode", MODES)
def test_changed_commands_and_constants_are_seen(mode: str) -> None:
    name = next(name for name, known in EVERYTHING.items() if known.constants)
    first = EVERYTHING[name]
    second = replace(first, constants=bytes(len(first.constants)))
    with SimDriver(mode) as driver:
        client = Client(SimKernel(driver), first)
        for loaded in (first, second, first):
            start = -(-len(first.text()) // 16) * 16
            client.arrays["commands"][start:start + len(first.constants)] = np.frombuffer(loaded.constants, np.uint8)
            reference = load(loaded)
            for buffer, store in reference.buffers.items():
                store[:] = client.arrays[buffer][:] = np.arange(store.size) % 61
            reference.run()
            client.submit()
            for buffer, store in reference.buffers.items():
                np.testing.assert_array_equal(client.arrays[buffer], store)
        client.close()


@pytest.mark.parametrize("mode", MODES)
def test_a_handle_given_out_again_is_other_memory(mode: str) -> None:
    with SimDriver(mode) as driver:
        client = Client(SimKernel(driver), program())
        client.submit()
        old = client.handles["x"]
        client.free("x")
        with pytest.raises(DriverError):
            client.submit()
        client.allocate("x", LAYOUT.size)
        assert (client.handles["x"] == old) == (mode == "faithful")
        client.tensor("x")[...] = 9
        handles = [client.handles["x"] if handle == old else handle for handle in client.request.handles]
        client.submit(replace(client.request, handles=tuple(handles)))
        assert (client.tensor("y") == 9).all()
        client.close()
