"""What the simulated driver does with wrong programs and clients: nothing in faithful mode, reports in strict mode."""

from __future__ import annotations

import errno
import mmap
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from support.driver_client import LAYOUT, STATE, Client, X, Y, access, addition, program
from support.mutants import mutants
from support.refusals import refused
from support.verifier_programs import base_programs

from openane.devices.linux import interface
from openane.devices.linux.interface import BufferFree
from openane.devices.simdriver import DriverError, LeakReport, ReportKind, SimDriver, SimKernel, StaleReport
from openane.devices.simdriver.driver import MODES, PAGE
from openane.errors import ProgramError, VerifyError
from openane.program import Program
from openane.program.verify import verify
from openane.simulator import load

EVERYTHING = base_programs()
NEXT = interface.WINDOW_BASE  # a page on: neighbours in faithful mode


@pytest.fixture
def strict() -> Iterator[SimDriver]:
    with SimDriver("strict") as driver:
        yield driver


@pytest.fixture
def faithful() -> Iterator[SimDriver]:
    with SimDriver("faithful") as driver:
        yield driver


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", EVERYTHING)
def test_every_kind_of_task_computes_what_the_simulator_computes(mode: str, name: str) -> None:
    rng = np.random.default_rng(3)
    loaded = load(EVERYTHING[name], "exact")
    with SimDriver(mode, "exact") as driver:
        client = Client(SimKernel(driver), EVERYTHING[name])
        for _ in range(2):
            for buffer, store in loaded.buffers.items():
                store[:] = client.arrays[buffer][:] = rng.integers(0, 60, store.size, np.uint8)
            loaded.run()
            client.submit()
            for buffer, store in loaded.buffers.items():
                np.testing.assert_array_equal(client.arrays[buffer], store)
        client.close()
        assert driver.reports == ()


def test_what_the_verifier_accepts_never_faults(strict: SimDriver) -> None:
    accepted = 0
    for mutant in mutants(EVERYTHING, 250, 5):
        try:
            verify(mutant.program)
        except (VerifyError, ProgramError):
            continue
        client = Client(SimKernel(strict), mutant.program)
        client.submit()
        client.close()
        accepted += 1
    assert accepted > 20
    assert strict.reports == ()


def test_mutants_do_no_harm(faithful: SimDriver) -> None:
    kernel = SimKernel(faithful)
    failed = 0
    for mutant in mutants(EVERYTHING, 200, 6):
        client = None
        try:
            client = Client(kernel, mutant.program)
            client.submit()
        except (DriverError, IndexError):  # a slot beyond the channels cannot even be bound
            failed += 1
        if client is not None:
            client.close()
    assert failed
    client = Client(kernel, program())
    client.tensor("x")[...] = 3
    client.submit()
    assert (client.tensor("y") == 3).all()
    client.close()


def overrunning() -> Program:
    """The result goes a page behind its buffer."""
    return program(addition(result=access(Y, LAYOUT, NEXT)))


def test_an_overrun_lands_in_the_neighbour(faithful: SimDriver) -> None:
    kernel = SimKernel(faithful)
    client, other = Client(kernel, overrunning()), Client(kernel, program())
    client.tensor("x")[...] = 5
    victim = other.arrays["commands"]  # the buffer behind the client's last one
    client.submit()
    assert (victim[:LAYOUT.size].view(np.float16) == 5).all()
    assert (client.tensor("y") == 0).all()
    del victim
    refused(other, errno.ETIMEDOUT, ReportKind.CHAIN, replace(other.request, task_count=2))
    client.close()
    other.close()


def test_an_overrun_is_reported_and_not_done(strict: SimDriver) -> None:
    kernel = SimKernel(strict)
    client, other = Client(kernel, overrunning()), Client(kernel, program())
    before = other.arrays["commands"].copy()
    report = refused(client, errno.EFAULT, ReportKind.BOUNDS)
    assert (report.task, report.operand, report.handle, report.beyond) == (0, "result", client.handles["y"], NEXT)
    assert f"{NEXT} bytes outside handle {client.handles['y']}" in str(report)
    np.testing.assert_array_equal(other.arrays["commands"], before)
    assert strict.reports == (report,)
    assert not strict.stuck
    client.close()
    other.close()


def test_the_neighbour_is_named(strict: SimDriver) -> None:
    kernel = SimKernel(strict)
    client = Client(kernel, program(addition(second=access(STATE, LAYOUT, 2 * PAGE))))  # past the gap
    report = refused(client, errno.EFAULT, ReportKind.BOUNDS)
    assert report.victim == f"handle {client.handles['y']} of client {report.client}"
    client.close()


def test_a_buffer_ends_where_it_was_asked_to(strict: SimDriver) -> None:
    client = Client(SimKernel(strict), program(addition(first=access(X, LAYOUT, 64))))
    assert refused(client, errno.EFAULT, ReportKind.BOUNDS).beyond == 64
    client.close()


def test_nothing_mapped_hangs(faithful: SimDriver) -> None:
    kernel = SimKernel(faithful)
    wrong = Client(kernel, program(addition(second=access(STATE, LAYOUT, 1 << 24))))
    report = refused(wrong, errno.ETIMEDOUT, ReportKind.UNMAPPED)
    assert (report.operand, report.beyond > 0) == ("second", True)
    assert faithful.stuck
    right = Client(kernel, program())
    right.submit()
    assert not faithful.stuck
    right.close()
    wrong.close()


def test_strides_may_step_over_holes(faithful: SimDriver) -> None:
    """Only what is touched must be mapped."""
    kernel = SimKernel(faithful)
    layout = replace(LAYOUT, shape=(1, 2, 1, 3, 32), strides=(4 * PAGE, 2 * PAGE, 4 * PAGE, 64, 2))
    small = replace(LAYOUT, shape=layout.shape)
    reads = program(addition(first=access(X, layout), second=access(STATE, small), result=access(Y, small)))
    client = Client(kernel, reads)
    fd = kernel.open(kernel.nodes()[0])
    client.tensor("x")[...] = 1
    # behind x: its neighbour `state`, which is in the way, then y, which the second plane reads
    client.tensor("y")[...] = 7
    client.submit()
    assert (client.tensor("y")[0] == 1).all()
    assert (client.tensor("y")[1] == 7).all()
    kernel.close(fd)
    client.close()


def test_a_slot_without_a_buffer(strict: SimDriver, faithful: SimDriver) -> None:
    loaded = program(addition(second=access(9, LAYOUT, interface.WINDOW_BASE)))
    client = Client(SimKernel(strict), loaded)
    assert "slot 9, to which no buffer is bound" in str(refused(client, errno.EFAULT, ReportKind.UNBOUND))
    client.close()
    client = Client(SimKernel(faithful), loaded)  # address 0: the window's first page is the commands
    client.submit()
    np.testing.assert_array_equal(client.arrays["y"][:400].view(np.uint16),
                                  client.arrays["commands"][:400].view(np.uint16))
    client.close()


def test_writing_to_the_commands(strict: SimDriver, faithful: SimDriver) -> None:
    loaded = program(addition(result=access(0, LAYOUT)))
    short = replace(loaded, constants=bytes(4096))
    client = Client(SimKernel(strict), short)
    refused(client, errno.EFAULT, ReportKind.PROTECTED)
    client.close()
    client = Client(SimKernel(faithful), short)
    client.submit()
    assert not client.arrays["commands"][:LAYOUT.size].any()
    client.close()


def test_tasks_before_the_one_that_hangs(strict: SimDriver, faithful: SimDriver) -> None:
    loaded = program(addition(), addition(first=access(Y), second=access(STATE, LAYOUT, 1 << 24), result=access(X)))
    for driver, code, kind, expected in ((strict, errno.EFAULT, ReportKind.BOUNDS, 0),
                                         (faithful, errno.ETIMEDOUT, ReportKind.UNMAPPED, 2)):
        client = Client(SimKernel(driver), loaded)
        client.tensor("x")[...] = 2
        assert refused(client, code, kind).task == 1
        assert (client.tensor("y") == expected).all()
        client.close()


def test_a_buffer_freed_under_a_run(strict: SimDriver) -> None:
    client = Client(SimKernel(strict), program())
    item = strict.files[0].object(client.handles["y"])
    strict._engine.running = frozenset({item})  # as in another thread's submission
    client.free("y")
    assert [str(report).partition(": it was ")[2].split(";")[0] for report in strict.reports] == [
        "freed while a submission used it"]
    client.close()


def test_use_after_free_is_found(strict: SimDriver) -> None:
    kernel = SimKernel(strict)
    client = Client(kernel, program())
    early = client.arrays["x"][:1]
    kernel.ioctl(client.fd, interface.BO_FREE, BufferFree(client.handles.pop("x")).pack())
    assert [str(report).partition("freed")[2] for report in strict.reports] == [
        " while it was mapped; the real driver would corrupt the kernel's memory"]
    offset = client.allocate("late", 1).offset
    client.free("late")
    with pytest.raises(DriverError):
        kernel.map(client.fd, 1, offset)
    with mmap.mmap(client.fd, 1, offset=offset) as mapping:  # what a program could do all the same
        assert mapping[:1] == b"\0"
    client.allocate("good", 1)
    client.free("good")
    assert early[0] == 0  # a read is enough
    del early
    client.arrays.clear()
    client.mappings[3].close()
    client.close()
    stale = [report for report in strict.reports[1:] if isinstance(report, StaleReport)]
    assert [(report.handle, report.text.split(", ")[0]) for report in stale] == [
        (3, "its memory was used after it was freed"), (6, "its memory was used after it was freed")]


def test_leaks(strict: SimDriver, faithful: SimDriver) -> None:
    for driver in (strict, faithful):
        client = Client(SimKernel(driver), program())
        sizes = tuple((handle, driver.files[0].handles[handle].size) for handle in client.handles.values())
        client.close(frees=False)
        report = driver.reports[0]
        assert isinstance(report, LeakReport)
        assert (report.buffers, report.reclaimed) == (sizes, driver.strict)
        assert (driver.used, len(driver.leaked)) == ((0, 0) if driver.strict else (5 * PAGE, 5))
    again = Client(SimKernel(faithful), overrunning())
    assert faithful.files[0].handles[1].address == interface.WINDOW_BASE + 5 * PAGE
    again.close()
