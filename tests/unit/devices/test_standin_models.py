"""What the stand-in's framework demands of a program, its files, its surfaces and its requests."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.standin import Client, weighted_sum

import openane
from openane.devices.macos.standin import SimulatedSymbols
from openane.devices.macos.standin.foundation import to_python

A, B, C = (np.random.default_rng(seed).integers(-8, 8, (3, 8)).astype(np.float16) for seed in range(3))
EXPECTED = A * B - C + np.arange(8, dtype=np.float16)
SIZE = 3 * 64
"""Bytes of a surface of three rows of eight halves."""


class Loaded(Client):
    """A client with a loaded model, and surfaces with the inputs in alphabetical order."""

    def __init__(self, folder: Path, inject: str = "", load: bool = True, ends: bool = False) -> None:
        super().__init__(f"temporary={folder},{inject}", ends)
        self.folder, self.pool = folder, self.push()
        self.program = weighted_sum()
        self.instance = self.model(self.program, folder)
        if load:
            assert self.compile(self.instance) == (True, "")
            assert self.load(self.instance) == (True, "")
        self.surfaces = [self.surface(SIZE) for _ in range(4)]
        for surface, values in zip(self.surfaces, (A, B, C), strict=False):
            self.write(surface, values)

    def requested(self) -> int:
        """The request in the right order."""
        return self.request(self.surfaces[:3], self.surfaces[3:])

    def finish(self) -> None:
        """Gives everything back. What is left is a defect of the stand-in or the test."""
        if not self.ended:
            self.asked(self.instance, "unloadWithQoS:error:", "I", 21)
        self.pop(self.pool)
        self.release(*self.surfaces)
        for each in self.folder.iterdir():
            shutil.rmtree(each)
        assert self.symbols.problems() == ()


@pytest.fixture
def loaded(tmp_path: Path) -> Iterator[Loaded]:
    client = Loaded(tmp_path)
    yield client
    client.finish()


def test_a_model_computes_its_text(loaded: Loaded) -> None:
    assert loaded.evaluate(loaded.instance, loaded.requested()) == (True, "")
    assert np.array_equal(loaded.read(loaded.surfaces[3], (3, 8)), EXPECTED)


def test_compiling_leaves_its_files_in_the_directory(loaded: Loaded) -> None:
    directory = Path(loaded.text(loaded.send(loaded.instance, "localModelPath", "@")))
    assert directory.name == loaded.text(loaded.send(loaded.instance, "hexStringIdentifier", "@"))
    assert {each.name for each in directory.iterdir()} == {"model.mil", "weights", "net.plist", "data"}


def test_another_order_of_surfaces_gives_wrong_data_and_no_error(loaded: Loaded) -> None:
    a, b, c, y = loaded.surfaces
    assert loaded.evaluate(loaded.instance, loaded.request([c, a, b], [y])) == (True, "")  # as the text declares them
    assert np.array_equal(loaded.read(y, (3, 8)), A * C - B + np.arange(8, dtype=np.float16))


@pytest.mark.parametrize("way", [2, 3, 4, 5])
def test_the_other_ways_to_run(loaded: Loaded, way: int) -> None:
    model, request, options = loaded.instance, loaded.requested(), loaded.dictionary({})
    client = loaded.send("_ANEClient", "sharedConnection", "@")
    value = ctypes.c_bool(False)
    if way == 2:
        assert not loaded.send(client, "beginRealTimeTask", "B")
        done = loaded.asked(client, "evaluateRealTimeWithModel:options:request:error:", "@@@", model, options, request)
    elif way == 3:
        done = loaded.asked(loaded.send(model, "program", "@"), "processRequest:model:qos:qIndex:modelStringID:options:"
                            "returnValue:error:", "@@Ii@@^", request, model, 21, 0, None, options,
                            ctypes.addressof(value))
        assert value.value
    else:
        selector = "doEvaluateDirectWithModel" if way == 4 else "evaluateWithModel"
        done = loaded.asked(client, f"{selector}:options:request:qos:error:", "@@@I", model, options, request, 21)
    assert done == (True, "")
    assert np.array_equal(loaded.read(loaded.surfaces[3], (3, 8)), EXPECTED)


def test_a_loaded_model_tells_its_layout(loaded: Loaded) -> None:
    attributes = to_python(loaded.runtime.instance(loaded.send(loaded.instance, "modelAttributes", "@")))
    (procedure,) = attributes["NetworkStatusList"]
    assert [port["Symbol"] for port in procedure["LiveInputList"]] == ["a", "b", "c"]
    (output,) = procedure["LiveOutputList"]
    assert (output["Symbol"], output["Type"], output["Height"], output["Width"]) == ("y", "Float16", 3, 8)
    assert (output["RowStride"], output["PlaneStride"], output["BatchStride"]) == (64, 192, 192)


def test_weights_are_baked(loaded: Loaded) -> None:
    file = Path(loaded.text(loaded.send(loaded.instance, "localModelPath", "@"))) / "weights" / "weight.bin"
    file.write_bytes(bytes(file.stat().st_size))
    assert loaded.load(loaded.instance) == (True, "")
    loaded.evaluate(loaded.instance, loaded.requested())
    assert np.array_equal(loaded.read(loaded.surfaces[3], (3, 8)), EXPECTED)


def test_a_small_surface_is_status_1d(loaded: Loaded) -> None:
    small = loaded.surface(SIZE - 1)
    done, text = loaded.evaluate(loaded.instance, loaded.request(loaded.surfaces[:3], [small]))
    loaded.release(small)
    assert not done
    assert "Failed with status=0x1d : Program Inference error" in text


def test_a_locked_surface_is_refused(loaded: Loaded) -> None:
    loaded.call("IOSurface", "IOSurfaceLock", "i@I@", loaded.surfaces[3], 1, None)
    done, text = loaded.evaluate(loaded.instance, loaded.requested())
    loaded.call("IOSurface", "IOSurfaceUnlock", "i@I@", loaded.surfaces[3], 1, None)
    assert not done
    assert "is locked" in text


def test_too_few_surfaces(loaded: Loaded) -> None:
    done, text = loaded.evaluate(loaded.instance, loaded.request(loaded.surfaces[:2], loaded.surfaces[3:]))
    assert not done
    assert "2 surfaces for 3 ports" in text


def test_what_is_not_loaded_does_not_run(tmp_path: Path) -> None:
    client = Loaded(tmp_path, load=False)
    request = client.requested()
    assert client.evaluate(client.instance, request)[1].endswith("the model is not loaded")
    assert client.load(client.instance)[1].endswith("the model was not compiled")
    assert client.compile(client.instance) == (True, "")
    assert client.load(client.instance) == (True, "")
    assert client.asked(client.instance, "unloadWithQoS:error:", "I", 21) == (True, "")
    assert client.evaluate(client.instance, request)[0] is False
    assert client.asked(client.instance, "unloadWithQoS:error:", "I", 21)[0] is False
    client.finish()


def test_equal_sizes_where_they_are_demanded(tmp_path: Path) -> None:
    for inject, expected in (("equal-sizes", False), ("", True)):
        client = Loaded(tmp_path, inject)
        large = client.surface(4 * SIZE)
        client.write(large, C)
        done, _ = client.evaluate(client.instance, client.request([*client.surfaces[:2], large], client.surfaces[3:]))
        client.release(large)
        client.finish()
        assert done is expected


def test_the_directory_must_hold_text_and_weights(tmp_path: Path) -> None:
    client = Client(f"temporary={tmp_path}")
    pool = client.push()
    program = weighted_sum()
    model = client.model(program, tmp_path, weights=False)
    assert client.compile(model) == (False, "_ANECompiler : ANECCompile() FAILED")
    directory = next(tmp_path.iterdir())
    (directory / "model.mil").write_text(f"{program.text}\n")
    assert "not the text of the descriptor" in client.compile(model)[1]
    (directory / "model.mil").unlink()
    assert "InvalidMILProgram" in client.compile(model)[1]
    nothing = client.model(replace(program, weights={}), tmp_path)
    assert "InvalidMILProgram" in client.compile(nothing)[1]  # the text names a file the dictionary does not have
    client.pop(pool)
    assert client.symbols.problems() == ()


@pytest.mark.parametrize(("old", "new", "said"), [
    ("fp16, [3, 8]", "fp32, [3, 8]", "ports are fp16, int8"), ("mul(", "nothing_like_it(", "nothing_like_it"),
    ("-> (y)", "-> (z)", "InvalidMILProgram"), ("program(1.3)", "programme", "InvalidMILProgram"),
    ("uint64(64)", "uint64(65)", "InvalidMILProgram")])
def test_programs_the_front_end_refuses(tmp_path: Path, old: str, new: str, said: str) -> None:
    client = Client(f"temporary={tmp_path}")
    pool = client.push()
    program = weighted_sum()
    done, text = client.compile(client.model(replace(program, text=program.text.replace(old, new)), tmp_path))
    client.pop(pool)
    assert not done
    assert said in text


@pytest.mark.parametrize(("live", "compiled"), [("0", 2), ("1", 5)])
def test_the_budget_of_compilations(tmp_path: Path, live: str, compiled: int) -> None:
    client = Client(f"temporary={tmp_path},budget=2,live-budget={live}")
    pool = client.push()
    done = []
    for _ in range(5):
        model = client.model(weighted_sum(), tmp_path)
        done.append(client.compile(model)[0])
        if done[-1]:
            client.load(model)
            client.asked(model, "unloadWithQoS:error:", "I", 21)
    client.pop(pool)
    assert done == [number < compiled for number in range(5)]


def test_a_string_for_the_text_ends_the_process() -> None:
    client = Client()
    pool = client.push()
    client.send("_ANEInMemoryModelDescriptor", "modelWithMILText:weights:optionsPlist:", "@@@@",
                client.string("program(1.3)"), client.dictionary({}), None)
    client.pop(pool)
    assert "-[__NSCFString bytes]: unrecognized selector" in client.ended[0]


def test_no_weights_must_not_be_nil() -> None:
    client = Client()
    pool = client.push()
    client.send("_ANEInMemoryModelDescriptor", "modelWithMILText:weights:optionsPlist:", "@@@@", client.data(b""),
                None, None)
    client.pop(pool)
    assert "must not be nil" in client.ended[0]


@pytest.mark.parametrize(("inject", "succeed"), [("evaluate=0x1d,after=2", 2), ("evaluate=0x1d", 0)])
def test_runs_fail_when_told_to(tmp_path: Path, inject: str, succeed: int) -> None:
    client = Loaded(tmp_path, inject)
    done = [client.evaluate(client.instance, client.requested())[0] for _ in range(4)]
    client.finish()
    assert done == [number < succeed for number in range(4)]


def test_statistics_and_mapping(tmp_path: Path) -> None:
    client = Loaded(tmp_path)
    model, request = client.instance, client.requested()
    assert client.asked(model, "mapIOSurfacesWithRequest:cacheInference:error:", "@B", request, True) == (True, "")
    client.send(model, "unmapIOSurfacesWithRequest:", "v@", request)
    assert client.send("_ANEPerformanceStats", "alloc", "@") is None
    statistics = client.send("_ANEPerformanceStats", "statsWithHardwareExecutionNS:", "@Q", 12)
    assert client.send(statistics, "hwExecutionTime", "Q") == 12
    assert client.send(statistics, "perfCounterData", "@") is None
    client.send(model, "setPerfStatsMask:", "vI", 255)
    assert client.send(model, "perfStatsMask", "I") == 255
    client.finish()


ENDING = """
    from pathlib import Path
    from test_standin_models import Loaded
    client = Loaded(Path({folder!r}), {inject!r}, ends=True)
    client.evaluate(client.instance, client.requested())
    print("survived")
"""


@pytest.mark.parametrize(("inject", "signal", "said"), [
    ("exception", 6, "uncaught exception 'NSInternalInconsistencyException'"), ("crash", 9, ""),
    ("exception,at=compile", 6, "compile was told to throw"), ("crash,at=load", 9, "")])
def test_exceptions_and_crashes_end_a_real_process(tmp_path: Path, inject: str, signal: int, said: str) -> None:
    here = Path(__file__)
    code = textwrap.dedent(ENDING.format(folder=str(tmp_path), inject=inject))
    path = [str(each) for each in (here.parent, here.parents[2], Path(openane.__file__).parents[1])]
    result = subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{code}"], cwd=tmp_path,
                            capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == -signal
    assert "survived" not in result.stdout
    assert said in result.stderr


def test_problems_are_written_to_the_report(tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    symbols = SimulatedSymbols(f"report={report}")
    symbols.load("Foundation")
    symbols.runtime.make("NSObject")
    symbols.close()
    symbols.close()
    assert report.read_text().count("was never released") == 1
