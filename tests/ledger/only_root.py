"""A mark for tests that give files to other users, which only root may do."""

import os

import pytest

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the owner of a file")
