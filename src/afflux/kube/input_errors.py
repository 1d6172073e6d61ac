"""Error messages for input: field, value and what was expected, on one line.

The decoder's messages name a path (`$.spec.priority`) and two types. Here they are translated into
the terms of a manifest. For that, the value is looked up in the input again, which is slow but only
happens once, for an error.
"""

import re

import msgspec

from afflux.kube.yaml_reader import Value

_EXPECTED = re.compile(r"Expected `(?P<expected>[^`]+)`(?P<bound> [<>]=? -?[0-9.]+)?(?:, got .*)?")
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]+)`")
_STEP = re.compile(r"\.(?P<field>[^.\[]+)|\[(?P<index>[0-9]+|\.\.\.)\]")
_QUANTITY = {"int", "float", "str"}
_WORDS = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
}


def shown(value: object) -> str:
    """A value for a message: quoted, on one line, shortened."""
    text = repr(value) if isinstance(value, str) else _json(value)
    if not text.isprintable():
        # JSON leaves some control characters as they are.
        text = ascii(text)[1:-1]
    return text if len(text) <= 80 else text[:77] + "..."


def entry(path: str, key: str) -> str:
    """The path of one entry of a mapping."""
    return f"{path}[{key if key.isprintable() else shown(key)}]"


def json_error(error: Exception) -> str:
    """Why a text is not valid JSON."""
    problem = str(error).removeprefix("JSON is malformed: ")
    return "it ends too early" if problem == "Input data was truncated" else problem


def field_error(error: msgspec.ValidationError, raw: bytes) -> str:
    """`field: value, expected ...` for an object of the wrong form."""
    message, _, path = str(error).partition(" - at `$")
    steps = path.removesuffix("`")
    if missing := _MISSING.fullmatch(message):
        place = f"{steps}.{missing['field']}".removeprefix(".")
        return f"{place}: missing, expected a value"
    match = _EXPECTED.fullmatch(message)
    accepted = match["expected"].split(" | ") if match else []
    place, value = _look_up(_decoded(raw), steps, accepted)
    if match is None:
        return f"{place}{message[:1].lower()}{message[1:]}"
    return f"{place}{shown(value)}, expected {_expected(accepted, match['bound'], value)}"


def _expected(accepted: list[str], bound: str | None, value: Value) -> str:
    names = [name for name in accepted if name != "null"]
    if set(names) == _QUANTITY:
        return "a quantity such as 500m, 2 or 1.5Gi"
    words = " or ".join(_WORDS.get(name, name) for name in names) + (bound or "")
    unquoted = "str" in names and isinstance(value, bool | int | float)
    return f"{words} (put it in quotes)" if unquoted else words


def _decoded(raw: bytes) -> Value:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        # A part that the struct skips is not valid JSON.
        return None


def _look_up(value: Value, steps: str, accepted: list[str]) -> tuple[str, Value]:
    """The dotted path with a colon, and the value at that path. The decoder writes `[...]` for an
    entry of a mapping; it is the first one of a type that is not accepted."""
    place = ""
    for step in _STEP.finditer(steps):
        if step["field"] is not None:
            place += f".{step['field']}"
            value = value.get(step["field"]) if isinstance(value, dict) else None
        elif step["index"] != "...":
            place += f"[{step['index']}]"
            value = value[int(step["index"])] if isinstance(value, list) else None
        elif isinstance(value, dict):
            key = next((k for k, v in value.items() if _type_name(v) not in accepted), None)
            if key is not None:
                place = entry(place, key)
                value = value[key]
    return f"{place.removeprefix('.')}: " if place else "", value


def _type_name(value: Value) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case dict():
            return "object"
        case list():
            return "array"
        case _:
            return type(value).__name__


def _json(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return repr(value)
