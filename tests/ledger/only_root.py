"""What only root can try: directories that belong to somebody else."""

import os

import pytest

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give things to others")
