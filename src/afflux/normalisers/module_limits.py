"""Bounds of WebAssembly modules that have to hold before the compiler sees a module.

The time and memory of a compiler grow faster than the size of a function: with its blocks times its
local variables. So the size of functions and the number of local variables are bounded, by reading
the sections of a module and the heads of its functions; all else is the compiler's business. The
slowest of many modules that were written to be slow within these bounds compiles in 4 s.
"""

from afflux.normalisers.errors import NormaliserRefusedError

MAX_MODULE_BYTES = 128 * 1024
MAX_FUNCTION_BYTES = 32 * 1024
MAX_FUNCTION_LOCALS = 300
MAX_LOCALS = 10_000

_HEADER = b"\0asm\x01\0\0\0"
_IMPORTS, _CODE = 2, 10


def check_module_limits(content: bytes) -> None:
    """Raises NormaliserRefusedError for a module that is too large, has imports or is cut off."""
    if len(content) > MAX_MODULE_BYTES:
        expected = f"expected at most {MAX_MODULE_BYTES}"
        raise NormaliserRefusedError(f"a module of {len(content)} bytes, {expected}")
    if not content.startswith(_HEADER):
        raise NormaliserRefusedError("no WebAssembly module of version 1, expected one")
    place = len(_HEADER)
    while place < len(content):
        section = content[place]
        size, start = _number(content, place + 1)
        place = start + size
        if place > len(content):
            raise _cut_off()
        if section == _IMPORTS and _number(content, start)[0]:
            raise NormaliserRefusedError("the module has imports, expected none")
        if section == _CODE:
            _check_functions(content[start:place])


def _check_functions(code: bytes) -> None:
    count, place = _number(code, 0)
    all_locals = 0
    for function in range(count):
        size, start = _number(code, place)
        place = start + size
        if size > MAX_FUNCTION_BYTES:
            problem = f"function {function} has {size} bytes"
            raise NormaliserRefusedError(f"{problem}, expected at most {MAX_FUNCTION_BYTES}")
        groups, head = _number(code, start)
        found = 0
        for _ in range(groups):
            many, head = _number(code, head)
            head += 1  # the type of these locals
            found += many
            if found > MAX_FUNCTION_LOCALS:
                problem = f"function {function} has {found} local variables"
                raise NormaliserRefusedError(f"{problem}, expected at most {MAX_FUNCTION_LOCALS}")
        all_locals += found
    if all_locals > MAX_LOCALS:
        expected = f"expected at most {MAX_LOCALS}"
        raise NormaliserRefusedError(f"{all_locals} local variables in all functions, {expected}")


def _number(content: bytes, place: int) -> tuple[int, int]:
    """An unsigned number of at most 32 bits in LEB128, and the place after it."""
    number = 0
    for shift in range(0, 35, 7):
        if place >= len(content):
            raise _cut_off()
        byte = content[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return number, place
    raise NormaliserRefusedError("the module has a number of more than 32 bits, expected none")


def _cut_off() -> NormaliserRefusedError:
    return NormaliserRefusedError("the module is cut off, expected all of its sections")
