"""`python -m afflux.cli`."""

import sys

from afflux.cli import main

sys.exit(main())
