"""The openb traces of a GPU cluster: a list of nodes and a list of pods, both CSV.

A node offers CPU, memory and GPUs; GPUs are devices tracked one by one. The trace has no limit of
pods per node, so every node gets more pod slots than it can use. A pod is a group of one. Columns
that are not named here are ignored, among them `qos` and `pod_phase`: every pod has priority 0,
since the trace does not say which pods may preempt others.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import NoReturn

from afflux.model.devices import WHOLE_MILLI, DeviceRequest
from afflux.model.errors import InputError
from afflux.model.machine import Machine
from afflux.model.resources import CPU, MAX_AMOUNT, MEMORY, PODS, Resources, resources
from afflux.model.selectors import ANYWHERE, NodeAffinity, Requirement, Term
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.sim.workload import Submission, Workload

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")

GPU_MODEL_LABEL = "gpu-model"
PODS_PER_NODE = 1000
MIB = 2**20

MAX_SECONDS = 1e12
MAX_DEVICES = 1024

_INTEGER = re.compile(r"[0-9]{1,18}", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,18}(\.[0-9]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class CsvFile:
    """The text of one CSV file, and its name for messages."""

    source: str
    text: str


@dataclass(frozen=True, slots=True)
class _Row:
    """One line; its accessors raise InputError with line, column and value if a value is wrong."""

    where: str
    values: Mapping[str, str]

    def refuse(self, column: str, expected: str) -> NoReturn:
        value = self.values[column]
        raise InputError(f"{self.where}: {column} is {value!r:.40}; expected {expected}")

    def text(self, column: str) -> str:
        return self.values[column] or self.refuse(column, "a name")

    def integer(self, column: str, max_value: int = MAX_AMOUNT) -> int:
        value = self.values[column]
        if not _INTEGER.fullmatch(value) or int(value) > max_value:
            self.refuse(column, f"a whole number between 0 and {max_value}")
        return int(value)

    def seconds(self, column: str) -> float | None:
        """None where the trace has no such column or leaves it empty."""
        value = self.values.get(column, "")
        if not value:
            return None
        if not _SECONDS.fullmatch(value) or float(value) > MAX_SECONDS:
            self.refuse(column, f"seconds between 0 and {MAX_SECONDS:g}")
        return float(value)


def read_openb(nodes: CsvFile, pods: CsvFile, machines: int | None = None) -> Workload:
    """The workload of a node list and a pod list; `machines` keeps only that many first nodes."""
    cluster = _machines(nodes)
    if machines is not None and not 1 <= machines <= len(cluster):
        raise InputError(
            f"--machines is {machines}; expected 1 to {len(cluster)}, the nodes in {nodes.source}"
        )
    submissions = _submissions(pods)
    submissions.sort(key=lambda submission: submission.group.ready_seconds)
    return Workload(PurePath(pods.source).stem, tuple(cluster[:machines]), tuple(submissions))


def _rows(csv_file: CsvFile, needed: tuple[str, ...]) -> Iterator[_Row]:
    """The data lines of a table whose first line names the columns."""
    reader = csv.reader(csv_file.text.split("\n"), strict=True)
    columns: list[str] | None = None
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            where = f"{csv_file.source}, line {reader.line_num}"
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
            f"{csv_file.source}, line {reader.line_num}: {error}; expected comma-separated values"
        ) from None
    if columns is None:
        raise InputError(f"{csv_file.source}: empty; expected columns {', '.join(needed)}")


def _check_header(columns: list[str], needed: tuple[str, ...], where: str) -> None:
    if missing := [column for column in needed if column not in columns]:
        raise InputError(
            f"{where}: no column {missing[0]!r}; expected at least {', '.join(needed)}"
        )
    if len(set(columns)) < len(columns):
        twice = next(column for column in columns if columns.count(column) > 1)
        raise InputError(f"{where}: two columns {twice!r:.40}; expected every name once")


def _machines(csv_file: CsvFile) -> list[Machine]:
    cluster: dict[str, Machine] = {}
    for row in _rows(csv_file, NODE_COLUMNS):
        name = row.text("sn")
        if name in cluster:
            row.refuse("sn", "a name that no other node has")
        model = row.values["model"]
        cluster[name] = Machine(
            name=name,
            capacity=_vector(row, pods=PODS_PER_NODE),
            devices=row.integer("gpu", max_value=MAX_DEVICES),
            labels={GPU_MODEL_LABEL: model} if model else {},
        )
    if not cluster:
        raise InputError(
            f"{csv_file.source}: no nodes; expected at least one line after the header"
        )
    return list(cluster.values())


def _submissions(csv_file: CsvFile) -> list[Submission]:
    submissions: dict[str, Submission] = {}
    shapes: dict[Shape, Shape] = {}
    for row in _rows(csv_file, POD_COLUMNS):
        name = row.text("name")
        if name in submissions:
            row.refuse("name", "a name that no other pod has")
        shape = Shape(_vector(row, pods=1), _devices(row), _affinity(row))
        task = Task(name, name, shapes.setdefault(shape, shape))
        arrival, run = _times(row)
        # The trace has no estimates: the scheduler is given the true run time.
        group = WaitingGroup(name, (task,), ready_seconds=arrival, run_seconds=run)
        submissions[name] = Submission(group, run)
    if not submissions:
        raise InputError(f"{csv_file.source}: no pods; expected at least one line after the header")
    return list(submissions.values())


def _vector(row: _Row, pods: int) -> Resources:
    memory_mib = row.integer("memory_mib", max_value=MAX_AMOUNT // MIB)
    return resources({CPU: row.integer("cpu_milli"), MEMORY: memory_mib * MIB, PODS: pods})


def _devices(row: _Row) -> DeviceRequest | None:
    """`num_gpu` different GPUs, and `gpu_milli` thousandths of each."""
    count = row.integer("num_gpu", max_value=MAX_DEVICES)
    milli = row.integer("gpu_milli", max_value=WHOLE_MILLI)
    if count == 0 and milli > 0:
        row.refuse("gpu_milli", "0, since num_gpu is 0")
    if count > 0 and milli == 0:
        row.refuse("gpu_milli", f"1 to {WHOLE_MILLI}, since num_gpu is {count}")
    return DeviceRequest(count, milli) if count else None


def _affinity(row: _Row) -> NodeAffinity:
    """The GPU models a pod accepts, as in `V100M16|V100M32`; any model if it names none."""
    spec = row.values.get("gpu_spec", "")
    if not spec:
        return ANYWHERE
    models = sorted({model.strip() for model in spec.split("|")})
    if not all(models):
        row.refuse("gpu_spec", "models separated by |")
    accepted = Requirement(GPU_MODEL_LABEL, "In", tuple(models))
    return NodeAffinity(required=(Term(labels=(accepted,)),))


def _times(row: _Row) -> tuple[float, float | None]:
    """When a pod arrives and how long it runs; a pod without deletion time runs without end."""
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
