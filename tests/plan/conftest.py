from collections.abc import Iterator

import pytest

from oracles.highs import Highs, running_highs


@pytest.fixture(scope="session")
def highs() -> Iterator[Highs]:
    with running_highs() as solver:
        yield solver
