"""Loads the workload that the command line names.

A source is a file, `-` for standard input, or `synthetic:...` for a generated workload. The kind
of a file is recognised by its content: traces have all kinds of file name extensions.
"""

import re
import sys
from collections.abc import Sequence
from typing import Literal, NamedTuple

from afflux.bounded_read import read_all, read_file
from afflux.model.errors import InputError
from afflux.sim.openb import NODE_COLUMNS, POD_COLUMNS, CsvFile, read_openb
from afflux.sim.swf import FIELDS, read_swf
from afflux.sim.synthetic_workload import PREFIX, generate
from afflux.sim.workload import Workload

Kind = Literal["log", "node list", "pod list"]

STDIN = "-"
_GZIP = b"\x1f\x8b"
_NUMBER = re.compile(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?", re.ASCII)


class _File(NamedTuple):
    kind: Kind
    csv_file: CsvFile


def load_workload(sources: Sequence[str], machines: int | None = None) -> Workload:
    """The workload of these sources; `machines` sets or limits the number of machines.

    Sources are one log, or one synthetic workload, or one node list and one pod list in any order.
    """
    if not sources:
        raise InputError(
            f"no workload; expected a log, a node list and a pod list, or {PREFIX}mixed"
        )
    if twice := next((source for source in sources if sources.count(source) > 1), None):
        raise InputError(f"{twice}: named twice; expected one workload per simulation")
    if any(source.startswith(PREFIX) for source in sources):
        if len(sources) > 1:
            raise InputError(
                f"{', '.join(sources)}: {len(sources)} workloads; expected one per simulation"
            )
        return generate(sources[0], machines)
    return _from_files([_classified(source) for source in sources], machines)


def _from_files(files: list[_File], machines: int | None) -> Workload:
    match sorted(files, key=lambda file: file.kind):
        case [_File("log", log)]:
            return read_swf(log.text, log.source, machines)
        case [_File("node list", nodes), _File("pod list", pods)]:
            return read_openb(nodes, pods, machines)
        case [_File("node list", nodes)]:
            raise InputError(
                f"{nodes.source} is a node list; expected a pod list with it"
                f" (a CSV file with columns {', '.join(POD_COLUMNS)})"
            )
        case [_File("pod list", pods)]:
            raise InputError(
                f"{pods.source} is a pod list; expected a node list with it"
                f" (a CSV file with columns {', '.join(NODE_COLUMNS)})"
            )
        case _:
            found = ", ".join(f"{file.csv_file.source} ({file.kind})" for file in files)
            raise InputError(
                f"{found}: more than one workload; expected one log, or one node list and one"
                " pod list"
            )


def _classified(source: str) -> _File:
    name = "stdin" if source == STDIN else source
    content = read_all(sys.stdin.buffer, name) if source == STDIN else read_file(source)
    text = _decoded(content, name)
    first = next((line for line in text.split("\n") if line.strip()), "").strip()
    if not first:
        raise InputError(f"{name}: empty; expected a log, a node list or a pod list")
    kind = _kind(first, name)
    if kind is None:
        raise InputError(
            f"{name}: the first line is {first!r:.60}; expected a log (SWF: {len(FIELDS)}"
            f" numbers or ';') or the header of a node list ({','.join(NODE_COLUMNS)}) or of a"
            f" pod list ({','.join(POD_COLUMNS)},...)"
        )
    return _File(kind, CsvFile(name, text))


def _kind(first: str, name: str) -> Kind | None:
    """The kind of a file by its first line; a header belongs to the list with most such columns."""
    columns = {cell.strip().strip('"') for cell in first.split(",")}
    as_nodes = len(columns & (set(NODE_COLUMNS) - set(POD_COLUMNS)))
    as_pods = len(columns & (set(POD_COLUMNS) - set(NODE_COLUMNS)))
    if as_nodes > as_pods:
        return "node list"
    if as_pods > as_nodes:
        return "pod list"
    fields = first.split()
    is_record = len(fields) == len(FIELDS) and all(_NUMBER.fullmatch(field) for field in fields)
    if is_record or first.startswith(";") or name.lower().endswith(".swf"):
        return "log"
    return None


def _decoded(content: bytes, name: str) -> str:
    if content.startswith(_GZIP):
        raise InputError(f"{name}: compressed by gzip; expected plain text (zcat it into -)")
    if b"\0" in content:
        raise InputError(f"{name}: binary data; expected text")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{name}, line {line}: byte 0x{content[error.start]:02x}; expected text in UTF-8"
        ) from None
