"""The one error a user can cause."""


class InputError(ValueError):
    """Input that cannot be used.

    The message is one line for people: it names the file, line or object, the field, the value
    and what was expected. The command line prints it and exits with code 2.
    """
