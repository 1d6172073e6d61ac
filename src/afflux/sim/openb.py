"""The openb traces of a GPU cluster: a list of nodes and a list of pods, both CSV.

A node offers its CPU, memory and GPUs, the latter as devices tracked one by one; the trace has
no limit of pods per node, so that every node gets more slots than it can ever use. A pod is a
group of one. Columns that are not named here are read over, among them `qos` and `pod_phase`:
every pod has priority 0, since the trace does not say who may push whom aside.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import NoReturn

from afflux.model.devices import WHOLE_MILLI, DeviceRequest
from afflux.model.errors import InputError
from afflux.model.group import Group
from afflux.model.machine import Machine
from afflux.model.resources import CPU, LARGEST_AMOUNT, MEMORY, PODS, Resources, resources
from afflux.model.selectors import ANYWHERE, NodeAffinity, Requirement, Term
from afflux.model.task import Shape, Task
from afflux.sim.workload import Submission, Workload

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")

GPU_MODEL_LABEL = "gpu-model"
PODS_PER_NODE = 1000
MIB = 2**20

LARGEST_SECONDS = 1e12
MOST_DEVICES = 1024

_WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,18}(\.[0-9]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Table:
    """The text of one CSV file and what messages call it."""

    source: str
    text: str


@dataclass(frozen=True, slots=True)
class _Row:
    """One line; its accessors refuse what they cannot use, naming line, column and value."""

    where: str
    values: Mapping[str, str]

    def refuse(self, column: str, expected: str) -> NoReturn:
        value = self.values[column]
        raise InputError(f"{self.where}: {column} is {value!r:.40}; expected {expected}")

    def text(self, column: str) -> str:
        return self.values[column] or self.refuse(column, "a name")

    def whole(self, column: str, most: int = LARGEST_AMOUNT) -> int:
        value = self.values[column]
        if not _WHOLE.fullmatch(value) or int(value) > most:
            self.refuse(column, f"a whole number between 0 and {most}")
        return int(value)

    def seconds(self, column: str) -> float | None:
        """None where the trace has no such column or leaves it empty."""
        value = self.values.get(column, "")
        if not value:
            return None
        if not _SECONDS.fullmatch(value) or float(value) > LARGEST_SECONDS:
            self.refuse(column, f"seconds between 0 and {LARGEST_SECONDS:g}")
        return float(value)


def read_openb(nodes: Table, pods: Table, machines: int | None = None) -> Workload:
    """The workload of a node list and a pod list; `machines` takes the first so many nodes."""
    cluster = _machines(nodes)
    if machines is not None and not 1 <= machines <= len(cluster):
        raise InputError(
            f"--machines is {machines}; expected 1 to {len(cluster)}, the nodes in {nodes.source}"
        )
    submissions = _submissions(pods)
    submissions.sort(key=lambda submission: submission.group.ready_seconds)
    return Workload(PurePath(pods.source).stem, tuple(cluster[:machines]), tuple(submissions))


def _rows(table: Table, needed: tuple[str, ...]) -> Iterator[_Row]:
    """The data lines of a table whose first line names the columns."""
    reader = csv.reader(table.text.split("\n"), strict=True)
    columns: list[str] | None = None
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            where = f"{table.source}, line {reader.line_num}"
            if columns is None:
                columns = [cell.strip() for cell in cells]
                _check_header(columns, needed, where)
                continue
            if len(cells) != len(columns):
                hint = " (a line cut short?)" if len(cells) < len(columns) else ""
                raise InputError(f"{where}: {len(cells)} cells; expected {len(columns)}{hint}")
            yield _Row(where, {c: v.strip() for c, v in zip(columns, cells, strict=True)})
    except csv.Error as error:
        raise InputError(
            f"{table.source}, line {reader.line_num}: {error}; expected comma-separated values"
        ) from None
    if columns is None:
        raise InputError(f"{table.source}: empty; expected columns {', '.join(needed)}")


def _check_header(columns: list[str], needed: tuple[str, ...], where: str) -> None:
    if missing := [column for column in needed if column not in columns]:
        raise InputError(
            f"{where}: no column {missing[0]!r}; expected at least {', '.join(needed)}"
        )
    if len(set(columns)) < len(columns):
        twice = next(column for column in columns if columns.count(column) > 1)
        raise InputError(f"{where}: two columns {twice!r:.40}; expected every name once")


def _machines(table: Table) -> list[Machine]:
    cluster: dict[str, Machine] = {}
    for row in _rows(table, NODE_COLUMNS):
        name = row.text("sn")
        if name in cluster:
            row.refuse("sn", "a name that no other node has")
        model = row.values["model"]
        cluster[name] = Machine(
            name=name,
            capacity=_vector(row, pods=PODS_PER_NODE),
            devices=row.whole("gpu", most=MOST_DEVICES),
            labels={GPU_MODEL_LABEL: model} if model else {},
        )
    if not cluster:
        raise InputError(f"{table.source}: no nodes; expected at least one line after the header")
    return list(cluster.values())


def _submissions(table: Table) -> list[Submission]:
    submissions: dict[str, Submission] = {}
    shapes: dict[Shape, Shape] = {}
    for row in _rows(table, POD_COLUMNS):
        name = row.text("name")
        if name in submissions:
            row.refuse("name", "a name that no other pod has")
        shape = Shape(_vector(row, pods=1), _devices(row), _affinity(row))
        task = Task(name, name, shapes.setdefault(shape, shape))
        arrival, run = _times(row)
        # The trace has no estimates: as in logs of batch systems, the scheduler knows the run.
        group = Group(name, (task,), ready_seconds=arrival, run_seconds=run)
        submissions[name] = Submission(group, run)
    if not submissions:
        raise InputError(f"{table.source}: no pods; expected at least one line after the header")
    return list(submissions.values())


def _vector(row: _Row, pods: int) -> Resources:
    memory_mib = row.whole("memory_mib", most=LARGEST_AMOUNT // MIB)
    return resources({CPU: row.whole("cpu_milli"), MEMORY: memory_mib * MIB, PODS: pods})


def _devices(row: _Row) -> DeviceRequest | None:
    """`num_gpu` different GPUs and of each of them `gpu_milli` thousandths."""
    count = row.whole("num_gpu", most=MOST_DEVICES)
    milli = row.whole("gpu_milli", most=WHOLE_MILLI)
    if count == 0 and milli > 0:
        row.refuse("gpu_milli", "0, since num_gpu is 0")
    if count > 0 and milli == 0:
        row.refuse("gpu_milli", f"1 to {WHOLE_MILLI}, since num_gpu is {count}")
    return DeviceRequest(count, milli) if count else None


def _affinity(row: _Row) -> NodeAffinity:
    """The GPU models a pod accepts, as in `V100M16|V100M32`; any if it names none."""
    spec = row.values.get("gpu_spec", "")
    if not spec:
        return ANYWHERE
    models = sorted({model.strip() for model in spec.split("|")})
    if not all(models):
        row.refuse("gpu_spec", "models separated by |")
    accepted = Requirement(GPU_MODEL_LABEL, "In", tuple(models))
    return NodeAffinity(required=(Term(labels=(accepted,)),))


def _times(row: _Row) -> tuple[float, float | None]:
    """When a pod arrives and for how long it runs; a pod that nobody deletes runs without end."""
    creation = row.seconds("creation_time")
    if creation is None:
        if "creation_time" in row.values:
            row.refuse("creation_time", "seconds")
        creation = 0.0
    deletion = row.seconds("deletion_time")
    if deletion is None:
        return creation, None
    if deletion < creation:
        row.refuse("deletion_time", f"no less than creation_time, {creation:g}")
    scheduled = row.seconds("scheduled_time")
    started = creation if scheduled is None else scheduled
    return creation, max(deletion - started, 1.0)
