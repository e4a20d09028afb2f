"""The Linux backend by name: from the command line, over a served driver, and from many threads."""

from __future__ import annotations

import errno
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import openane as ane
from openane.cli import main
from openane.compiler import Model
from openane.devices import open_device
from openane.devices.linux.device import LinuxDevice
from openane.devices.simdriver import SimDriver, SimKernel
from openane.devices.simdriver.messages import FAMILY, TYPE
from openane.devices.simdriver.server import DriverServer
from openane.errors import DeviceHung, DeviceUnavailable, SubmitFailed
from openane.formats import save_program

LINUX, NODE = "linux?driver=simulated", "/dev/accel/accel0"
DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def model() -> Model:
    return ane.compile(ane.load_graph(DIGITS))


def images(count: int) -> list[np.ndarray]:
    return list(np.random.default_rng(0).random((count, 1, 1, 8, 8), np.float32))


@pytest.mark.parametrize("kind", ["model", "ane", "hwx", "anec"])
def test_from_the_command_line(kind: str, model: Model, tmp_path: Path, capsys: Capture) -> None:
    path = DIGITS if kind == "model" else tmp_path / f"digits.{kind}"
    if kind == "ane":
        model.save(path)
    elif kind != "model":
        save_program(model.program, path)
    found = []
    for name in ("simulator", LINUX, f"{LINUX}&mode=faithful"):
        folder = tmp_path / str(len(found))
        assert main(["run", str(path), "--device", name, "--output-dir", str(folder), "--json",
                     "--arithmetic", "exact"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["device"].startswith(name)
        [output] = document["outputs"].values()
        found.append(Path(output["file"]).read_bytes())
    assert found[0] == found[1] == found[2]


def test_what_the_command_line_says_about_devices(tmp_path: Path, capsys: Capture,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANE_DEVICE", f"{LINUX}&mode=faithful")
    assert main(["run", str(DIGITS)]) == 0
    assert f"10 tasks on {LINUX}&mode=faithful in " in capsys.readouterr().out
    assert main(["run", str(DIGITS), "--device", "macos?runtime=simulated&worker=off"]) == 0
    assert "the graph, compiled by the device, on macos?" in capsys.readouterr().out
    for arguments, text in ((["--device", "linux:0", "--arithmetic", "exact"], "belongs to the simulated driver"),
                            (["--device", f"linux?driver={tmp_path / 'none'}"], "no simulated driver is served at"),
                            (["--device", f"{LINUX}&speed=2"], "no option 'speed'; it has driver, timeout")):
        assert main(["run", str(DIGITS), *arguments]) == 1
        assert text in capsys.readouterr().err


def test_over_a_served_driver(model: Model, tmp_path: Path) -> None:
    [image] = images(1)
    path = tmp_path / "ane"
    with SimDriver() as driver, DriverServer(driver, path):
        with open_device(f"linux?driver={path}") as device, device.load(model) as executable:
            assert not device.info.engine
            assert f"simulated engine served at {path}" in device.info.description
            found = executable.run({"image": image})["probabilities"]
        assert found.tobytes() == ane.run(model, {"image": image}, "simulator")["probabilities"].tobytes()
        assert (driver.used, driver.reports) == (0, ())
    with pytest.raises(DeviceUnavailable, match="no simulated driver is served"):
        open_device(f"linux?driver={path}")


def test_the_socket_of_a_server_that_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "ane"
    with socket.socket(FAMILY, TYPE) as server:
        server.bind(str(path))
    for name in (path, tmp_path):
        with pytest.raises(DeviceUnavailable, match=r"no simulated driver is served at .*Connection refused"):
            open_device(f"linux?driver={name}")


def test_threads_share_a_device_and_a_driver(model: Model) -> None:
    given = images(6)
    wanted = [ane.run(model, {"image": image})["probabilities"].tobytes() for image in given]
    with SimDriver() as driver:
        kernel = SimKernel(driver)

        def client(number: int) -> None:
            device = LinuxDevice(kernel, NODE, "linux:0", simulated="a driver")
            with device, device.load(model) as own, ThreadPoolExecutor(2) as threads:
                assert all(threads.map(lambda k: own.run({"image": given[k % 6]})["probabilities"].tobytes() ==
                                       wanted[k % 6], range(number, number + 20)))

        with ThreadPoolExecutor(4) as clients:
            list(clients.map(client, range(4)))
        assert (driver.used, driver.files, driver.reports) == (0, (), ())


def test_a_hang_and_what_comes_after(model: Model) -> None:
    [image] = images(1)
    with SimDriver() as driver:
        device = LinuxDevice(SimKernel(driver), NODE, "linux:0")
        with device, device.load(model) as executable:
            driver.inject("SUBMIT", errno.ETIMEDOUT)
            with pytest.raises(DeviceHung) as caught:
                executable.run({"image": image})
            assert (caught.value.domain, caught.value.code, caught.value.seconds) == ("errno", errno.ETIMEDOUT, 1.0)
            driver.inject("SUBMIT", errno.EIO)
            with pytest.raises(SubmitFailed, match="injected"):
                executable.run({"image": image})
            assert executable.run({"image": image})["probabilities"].sum() > 0.9
        del caught
        assert (driver.used, driver.reports) == (0, ())
