"""Witnesses that share nothing with us: eiln's libane (C) and its Python binding run our .anec on the simulated driver.

The sources are not part of this project: $OPENANE_LIBANE names a git repository of eiln/ane that has `COMMIT`. They are
built, unmodified, in a temporary folder.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.needs import lacking
from support.supervised import supervised

import openane as ane
from openane.formats.anec import write_anec

COMMIT = "0dcea9976fae0b500a236a62fca69cd4d39f0809"
pytestmark = pytest.mark.needs("libane", "construct")
EXAMPLES = Path(__file__).parents[3] / "examples"
PROGRAMS = {"strict": ("edges", "digits", "two"), "faithful": ("two",)}
HEADERS = ("/usr/include/libdrm", "/usr/include/drm")

TWO_RESULTS = """program(1.3)
{
  func main<ios18>(tensor<fp16, [1, 3, 5, 77]> x, tensor<fp16, [1, 3, 5, 77]> y) {
    tensor<fp16, [1, 3, 5, 77]> sum = add(x = x, y = y)[name = string("sum")];
    tensor<fp16, [1, 3, 5, 77]> product = mul(x = x, y = y)[name = string("product")];
  } -> (sum, product);
}
"""

MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ane.h"

/* MODEL RUNS, then a file of fp16 elements for every input, then one to write for every output */
static size_t elements(struct ane_nn *nn, int slot)
{
    uint64_t shape[6];
    memcpy(shape, &nn->anec.nchw[slot], sizeof(shape));
    return shape[0] * shape[1] * shape[2] * shape[3];
}

int main(int argc, char **argv)
{
    struct ane_nn *nn = ane_init(argv[1]);
    if (!nn)
        return 3;
    const int inputs = ane_src_count(nn), outputs = ane_dst_count(nn);
    if (argc != 3 + inputs + outputs)
        return 4;
    for (int run = 0; run < atoi(argv[2]); run++) {
        for (int i = 0; i < inputs; i++) {
            const size_t count = elements(nn, 4 + outputs + i);
            void *data = malloc(count * 2);
            FILE *file = fopen(argv[3 + i], "rb");
            if (!file || fread(data, 2, count, file) != count)
                return 5;
            fclose(file);
            __ane_tile_send(nn, data, i);
            free(data);
        }
        if (ane_exec(nn) < 0)
            return 6;
        for (int i = 0; i < outputs; i++) {
            const size_t count = elements(nn, 4 + i);
            void *data = malloc(count * 2);
            FILE *file = fopen(argv[3 + inputs + i], "wb");
            __ane_tile_read(nn, data, i);
            if (!file || fwrite(data, 2, count, file) != count)
                return 7;
            fclose(file);
            free(data);
        }
    }
    ane_free(nn);
    return 0;
}
"""

BINDING = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from ane import model
runner = model(sys.argv[3], lib_path=sys.argv[2])
inputs, outputs = sys.argv[5:5 + runner.src_count], sys.argv[5 + runner.src_count:]
for _ in range(int(sys.argv[4])):
    arrays = [np.fromfile(path, np.float16).reshape(nchw[:4]) for path, nchw in zip(inputs, runner.src_nchw)]
    for path, array in zip(outputs, runner.predict(arrays), strict=True):
        array.tofile(path)
"""

Command = Callable[..., tuple[str, ...]]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """libane and its bindings as they are at `COMMIT`."""
    if not any(Path(folder, "drm.h").exists() for folder in HEADERS):
        lacking("libane", "the DRM headers are missing: apt-get install libdrm-dev")
    folder = tmp_path_factory.mktemp("libane")
    archive = folder / "sources.tar"
    subprocess.run(["git", "-c", "safe.directory=*", "-C", os.environ["OPENANE_LIBANE"], "archive", "-o", archive,
                    COMMIT], check=True, timeout=60)
    shutil.unpack_archive(archive, folder)
    return folder


@pytest.fixture(scope="module")
def built(sources: Path) -> Path:
    """The folder with `dynamic`, `static` and `libane_python.so`."""
    (sources / "main.c").write_text(MAIN)
    flags = ["gcc", "-std=gnu99", "-O1", f"-I{sources / 'libane'}", f"-I{sources / 'ane/src/uapi/drm'}",
             *(f"-I{folder}" for folder in HEADERS)]
    for words in (["-fPIC", "-c", "libane/ane.c", "-o", "ane.o"], ["main.c", "ane.o", "-o", "dynamic"],
                  ["-static", "main.c", "ane.o", "-o", "static"],
                  ["-shared", "-fPIC", "bindings/python/dylib/libane_python.c", "ane.o", "-o", "libane_python.so"]):
        subprocess.run([*flags, *words], cwd=sources, check=True, timeout=60)
    return sources


@pytest.fixture(params=["dynamic", "static", "binding"])
def command(request: pytest.FixtureRequest, built: Path) -> Command:
    """The words that run one of the clients."""
    if request.param != "binding":
        return lambda *words: (str(built / request.param), *words)
    package, library = built / "bindings/python/python", built / "libane_python.so"
    return lambda *words: (sys.executable, "-B", "-c", BINDING, str(package), str(library), *words)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Our programs as libane reads them."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "two.mil").write_text(TWO_RESULTS)
    found = {}
    for source in (EXAMPLES / "walkthrough/edges.mil", EXAMPLES / "digits/digits.onnx", folder / "two.mil"):
        found[source.stem] = folder / f"{source.stem}.anec"
        found[source.stem].write_bytes(write_anec(ane.compile(ane.load_graph(source)).program, 0x800))
    return found


@pytest.mark.parametrize("mode", ["strict", "faithful"])
def test_clients_of_others_get_the_simulators_bits(command: Command, programs: dict[str, Path], mode: str,
                                                   tmp_path: Path) -> None:
    """All programs by one client, each in a process of its own, on one driver."""
    rng, commands, expected = np.random.default_rng(3), [], {}
    for name in PROGRAMS[mode]:
        program = ane.load_program(programs[name])
        inputs = {port.name: rng.standard_normal(port.layout.shape).astype(np.float16) for port in program.inputs}
        outputs = {tmp_path / f"{name}.{port}": array for port, array in ane.run(program, inputs).items()}
        for port, array in inputs.items():
            array.tofile(tmp_path / f"{name}.{port}")
        paths = [*(tmp_path / f"{name}.{port}" for port in inputs), *outputs]
        commands.append(shlex.join(command(str(programs[name]), "3", *map(str, paths))))
        expected |= outputs
    found = supervised("sh", "-c", " && ".join(commands), options=("--mode", mode))
    assert (found.status, found.errors) == (0, "")
    assert found.report["submissions"] == 3 * len(commands)
    assert (found.kinds, found.report["leaked_bytes"]) == ([], 0)
    for path, array in expected.items():
        assert path.read_bytes() == array.tobytes(), path.name


def test_what_libane_does_without_its_device(built: Path, programs: dict[str, Path]) -> None:
    """The second of two accelerators is asked for by scanning all 64 nodes, and there is one."""
    text = BINDING.replace("lib_path", "dev_id=1, lib_path")
    package, library = built / "bindings/python/python", built / "libane_python.so"
    found = supervised(sys.executable, "-B", "-c", text, str(package), str(library), str(programs["edges"]), "1")
    assert (found.status, found.kinds) == (1, [])
    assert "failed to find device with dev_id 1" in found.errors
