"""Amounts of resources for people, written as Kubernetes quantities: 250m, 4, 1536Mi, 2Gi."""

_BINARY_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


def cpu_text(milli: int) -> str:
    """Whole cores if there is no remainder, else thousandths."""
    cores, rest = divmod(milli, 1000)
    return f"{milli}m" if rest else str(cores)


def bytes_text(amount: int) -> str:
    """In the largest unit without a remainder."""
    power = 0
    while amount and amount % 1024 == 0 and power < len(_BINARY_UNITS) - 1:
        amount //= 1024
        power += 1
    return f"{amount}{_BINARY_UNITS[power]}"
