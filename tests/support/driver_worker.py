"""A process that uses a served driver: `python -m support.driver_worker PATH RUNS SEED`; RUNS 0: until it is killed."""

from __future__ import annotations

import sys
from itertools import count

import numpy as np
from support.driver_client import Client, program

from openane.devices.linux.kernel import Kernel
from openane.devices.simdriver import SocketKernel


def check_runs(kernel: Kernel, runs: int, seed: int) -> int:
    """Runs a program on random inputs, with new buffers now and then; how many answers were wrong."""
    rng = np.random.default_rng(seed)
    wrong = 0
    client = Client(kernel, program())
    for index in range(runs) if runs else count():
        if index % 50 == 49:
            client.close()
            client = Client(kernel, program())
        x, state = rng.integers(-1000, 1000, (2, 4, 3, 32)).astype(np.float16)
        client.tensor("x")[...], client.tensor("state")[...] = x, state
        client.submit()
        wrong += not np.array_equal(client.tensor("y"), x + state)
    client.close()
    return wrong


def main() -> int:
    """1 when an answer was wrong."""
    path, runs, seed = sys.argv[1:]
    Client(SocketKernel(path), program()).close()
    print("ready", flush=True)
    return int(check_runs(SocketKernel(path), int(runs), int(seed)) > 0)


if __name__ == "__main__":
    sys.exit(main())
