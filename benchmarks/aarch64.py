"""The Linux client, the simulated driver, attesting and judging in a Python for aarch64, the processors of Asahi Linux.

    python benchmarks/aarch64.py [EXPERIMENT...]

`OPENANE_AARCH64` is the command that starts such a Python with numpy, on a machine of that kind or by Debian's
qemu-user: packages of arm64 (python3-minimal, libpython3-stdlib, libstdc++6, libgcc-s1, zlib1g) unpacked into ROOT,
numpy's wheel into SITE, and

    qemu-aarch64-static -L ROOT -E PYTHONHOME=ROOT/usr -E PYTHONPATH=SITE ROOT/usr/bin/python3.11

Without it nothing is done. Not tried so: the driver's requests to a real kernel, programs of others that are supervised
by seccomp or a preloaded library (`ane simdriver -- COMMAND`), and the stand-in of macOS, which needs callbacks of the
processor it runs on.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parents[1]
CHOSEN = ("conv_stride", "row_sums", "signed_zero", "port_limit", "dispatch_cost")
INSIDE = """
import platform, sys, tempfile
sys.path[:0] = sys.argv[1:3]
from pathlib import Path
from openane.experiments import find_experiment
from support.planted_engines import linux, verdict
found = missed = 0
for name in sys.argv[3:]:
    experiment = find_experiment(name)
    for number, hypothesis in enumerate(experiment.hypotheses):
        with tempfile.TemporaryDirectory() as folder:
            said = verdict(linux(hypothesis.engine, seed=number), experiment, Path(folder))
        found += said.named == hypothesis.name
        missed += said.named != hypothesis.name
print(f"{platform.machine()}: {found} hypotheses of {found + missed} found on the simulated driver")
sys.exit(bool(missed))
"""


def main() -> int:
    command = shlex.split(os.environ.get("OPENANE_AARCH64", ""))
    if not command:
        print("skipped: OPENANE_AARCH64 names no Python for aarch64")
        return 0
    paths = [str(HERE / "src"), str(HERE / "tests")]
    return subprocess.run([*command, "-c", INSIDE, *paths, *(sys.argv[1:] or CHOSEN)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
