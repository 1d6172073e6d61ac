"""The time to import the command line."""

import statistics
import subprocess
import sys

_PROGRAM = "import time; t = time.perf_counter(); import afflux.cli; print(time.perf_counter() - t)"


def measure(runs: int = 11) -> float:
    """The median time in seconds to import the command line in a fresh interpreter."""
    times = [
        float(
            subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, check=True).stdout
        )
        for _ in range(runs)
    ]
    return statistics.median(times)
