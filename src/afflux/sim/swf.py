"""Reads logs in the Standard Workload Format, by the rules that the literature uses.

The cluster is a number of single processors and a job is a gang of tasks, one per processor: a job
fits if enough processors are free. A record becomes a job by these rules, in this order:

1. processors are the allocated ones (field 5), at most the size of the machine;
2. run <= 0 or processors <= 0: a job of 1 second (and of 1 processor, if none were allocated);
3. requested <= 0: the estimate is the run time; otherwise estimate = max(requested, run) and
   run = min(requested, run);
4. no job runs for less than 1 second, and no estimate is shorter than the run.

Times are those of the log; the simulation begins with the first submission.
"""

import math
import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import NoReturn

from afflux.model.errors import InputError
from afflux.model.machine import Machine
from afflux.model.resources import CPU, PODS, resources
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.sim.workload import Submission, Workload

FIELDS = (
    *("job number", "submit time", "wait time", "run time", "allocated processors"),
    *("average CPU time", "used memory", "requested processors", "requested time"),
    *("requested memory", "status", "user", "group", "application", "queue", "partition"),
    *("preceding job", "think time"),
)
PROCESSOR = Shape(requests=resources({CPU: 1000, PODS: 1}))

# No real log exceeds these; without bounds a damaged number would exhaust the memory.
MAX_VALUE = 1e12
MAX_PROCESSORS = 1_000_000
MAX_TASKS = 5_000_000

_NUMBERS = re.compile(r"[-+.0-9eE\s]*", re.ASCII)
_MACHINE_SIZE = re.compile(r";\s*(MaxProcs|MaxNodes)\s*:\s*(-?[0-9]{1,18})\b", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Job:
    number: int
    submit_seconds: float
    run_seconds: float
    estimate_seconds: float
    processors: int


def read_swf(text: str, source: str, machines: int | None = None) -> Workload:
    """The workload of a log; `source` is its name for messages.

    `machines` is the number of processors; without it the header's MaxProcs or MaxNodes is used.
    """
    jobs: dict[int, _Job] = {}
    header: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        fields = line.split()
        if not fields:
            continue
        if fields[0].startswith(";"):
            if found := _MACHINE_SIZE.match(line.strip()):
                header.setdefault(found[1], int(found[2]))
            continue
        where = f"{source}, line {number}"
        job = _job(_values(fields, line, where), fields, where)
        if job.number in jobs:
            _refuse(where, fields, 1, "a number that no other job has")
        jobs[job.number] = job
    if not jobs:
        raise InputError(f"{source}: no jobs; expected lines of {len(FIELDS)} numbers each")

    size = _machine_size(machines, header, source)
    ordered = sorted(jobs.values(), key=lambda job: job.submit_seconds)
    if sum(min(job.processors, size) for job in ordered) > MAX_TASKS:
        raise InputError(
            f"{source}: more than {MAX_TASKS:,} tasks in all; expected a shorter log"
            " (cut it, or give fewer --machines)"
        )
    return Workload(
        name=PurePath(source).stem,
        machines=_processors(size),
        submissions=tuple(_submission(job, size) for job in ordered),
        cycle_per_event=True,
    )


def _values(fields: list[str], line: str, where: str) -> list[float]:
    """The numbers of a record, all finite and at most MAX_VALUE."""
    if len(fields) != len(FIELDS):
        hint = " (a line cut short?)" if len(fields) < len(FIELDS) else ""
        raise InputError(f"{where}: {len(fields)} fields; expected {len(FIELDS)}{hint}")
    # float() also accepts nan, inf and 1_000; the pattern refuses them.
    if _NUMBERS.fullmatch(line):
        try:
            values = [float(field) for field in fields]
        except ValueError:
            values = [math.inf]
        if max(values) <= MAX_VALUE and min(values) >= -MAX_VALUE:
            return values
    position = next(i for i, field in enumerate(fields, start=1) if not _is_sane(field))
    expected = f"a number between -{MAX_VALUE:g} and {MAX_VALUE:g}"
    return _refuse(where, fields, position, expected)


def _is_sane(field: str) -> bool:
    try:
        return bool(_NUMBERS.fullmatch(field)) and abs(float(field)) <= MAX_VALUE
    except ValueError:
        return False


def _job(values: list[float], fields: list[str], where: str) -> _Job:
    number, submit, _, run, processors, *_ = values
    requested = values[8]
    if number < 0 or not number.is_integer():
        _refuse(where, fields, 1, "a whole number of at least 0")
    if submit < 0:
        _refuse(where, fields, 2, "seconds of at least 0")
    if not processors.is_integer():
        _refuse(where, fields, 5, "a whole number")
    if run <= 0 or processors <= 0:
        run = 1.0
    estimate = run
    if requested > 0:
        estimate = max(requested, run)
        run = min(requested, run)
    run = max(run, 1.0)
    return _Job(int(number), submit, run, max(estimate, run), max(int(processors), 1))


def _refuse(where: str, fields: list[str], position: int, expected: str) -> NoReturn:
    raise InputError(
        f"{where}: field {position} ({FIELDS[position - 1]}) is {fields[position - 1]!r:.40};"
        f" expected {expected}"
    )


def _machine_size(machines: int | None, header: dict[str, int], source: str) -> int:
    """The user's number, else the header's number of processors, else its number of nodes."""
    if machines is not None:
        size, name = machines, "--machines"
    elif header.get("MaxProcs", -1) != -1:
        size, name = header["MaxProcs"], f"{source}: header MaxProcs"
    elif header.get("MaxNodes", -1) != -1:
        size, name = header["MaxNodes"], f"{source}: header MaxNodes"
    else:
        raise InputError(
            f"{source}: no MaxProcs or MaxNodes in the header; expected --machines with the"
            " number of processors"
        )
    if not 1 <= size <= MAX_PROCESSORS:
        raise InputError(f"{name} is {size}; expected 1 to {MAX_PROCESSORS}")
    return size


def _processors(size: int) -> tuple[Machine, ...]:
    width = len(str(size - 1))
    capacity = PROCESSOR.requests
    return tuple(Machine(f"processor-{index:0{width}d}", capacity) for index in range(size))


def _submission(job: _Job, size: int) -> Submission:
    name = str(job.number)
    names = [f"{name}.{index}" for index in range(min(job.processors, size))]
    group = WaitingGroup(
        key=name,
        tasks=tuple(Task(task, task, PROCESSOR) for task in names),
        ready_seconds=job.submit_seconds,
        run_seconds=job.estimate_seconds,
    )
    return Submission(group, job.run_seconds)
