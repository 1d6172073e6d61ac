"""What happens to an object that cannot be used.

In a live cluster it is logged, and the object waits until it has changed. In a file it is an error
of the input, which names the file.
"""

import logging
from collections.abc import Callable

from afflux.model.errors import InputError

OnInvalid = Callable[[str, str, Exception], str]
"""Called with the kind and name of an object and the error. Returns what is wrong, or raises."""

_log = logging.getLogger(__name__)


def log_invalid(kind: str, name: str, error: Exception) -> str:
    """What is wrong with an object; an error in our own code is logged in full."""
    if isinstance(error, InputError):
        return str(error)
    _log.error("%s %s could not be read", kind, name, exc_info=error)
    return f"an error of the scheduler ({type(error).__name__}), see its log"
