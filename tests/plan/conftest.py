import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from oracles.highs import Highs, running_highs


@pytest.fixture(scope="session")
def highs() -> Iterator[Highs]:
    with running_highs() as solver:
        yield solver
