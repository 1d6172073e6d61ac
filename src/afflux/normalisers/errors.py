"""The typed refusals of this package: nothing else is raised, whatever the input is."""

from afflux.model.errors import InputError


class NormaliserRefusedError(InputError):
    """A content, an entry, a key or a result that cannot be used; the message says why."""


class NotAuthenticError(NormaliserRefusedError):
    """A content or an entry that is well formed, but is not what a trusted vendor has signed."""
