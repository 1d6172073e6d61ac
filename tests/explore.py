"""python tests/explore.py [SEED]: all property tests with new examples, round after round.

Every round has a seed, from which all its examples follow. Exploration ends with Ctrl-C or with the
first round that fails, and prints how to repeat it. With a SEED it runs that one round.
"""

import os
import subprocess
import sys
from itertools import count
from random import SystemRandom
from time import monotonic

PYTHON = (
    sys.executable,
    "-m",
    "pytest",
    "-n",
    "auto",
    "-m",
    "hypothesis",
    "-p",
    "no:cacheprovider",
)
RUST = (
    "cargo",
    "test",
    "--workspace",
    "--exclude",
    "afflux-py",
    "--locked",
    "--release",
    "--quiet",
)


def passes(seed: int) -> bool:
    """Whether every property holds for the examples of this seed. Failures are printed."""
    explore = ("--hypothesis-profile=explore", f"--hypothesis-seed={seed}")
    python = subprocess.run((*PYTHON, *explore), check=False)
    rust = subprocess.run(
        RUST,
        check=False,
        env={**os.environ, "PROPTEST_RNG_SEED": str(seed)},
        stdout=subprocess.PIPE,
    )
    if rust.returncode:
        sys.stdout.buffer.write(rust.stdout)
    return python.returncode == 0 and rust.returncode == 0


def main() -> int:
    """Explores until something fails; the exit code is 1 then."""
    given = [int(text) for text in sys.argv[1:]]
    began = monotonic()
    for number in count(1):
        seed = given[0] if given else SystemRandom().randrange(1 << 32)
        print(f"round {number}, {monotonic() - began:.0f} s: seed {seed}", flush=True)
        if not passes(seed):
            print(
                f"seed {seed} fails. To repeat all of its round: make explore SEED={seed}\n"
                "To repeat one test in Python: .venv/bin/pytest --hypothesis-profile=explore "
                f"--hypothesis-seed={seed} TEST\n"
                f"To repeat one test in Rust: PROPTEST_RNG_SEED={seed} cargo test --release TEST"
            )
            return 1
        if given:
            return 0
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("ended by Ctrl-C; every round so far has passed")
