"""Writes the sections of docs/benchmarks.md from the figures of kube.json and constraints.json."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.kube import report
from bench.kube.constraint_workloads import CONSTRAINT_WORKLOADS
from bench.kube.report import Goal
from bench.kube.results import (
    API_SERVER,
    BACKLOG,
    SCHEDULER,
    STREAM,
    Key,
    Median,
    Run,
    medians,
    share,
)
from bench.kube.schedulers import AFFLUX, NULL, PEER
from bench.kube.workloads import TRICKLE

BEGIN = "<!-- Written by `python -m bench.kube --write-docs docs/benchmarks/{file}`. -->"
END = "<!-- End of what it writes. -->"
# Up to this share, CPU time of other processes is not mentioned.
MAX_UNMENTIONED_SHARE = 0.1

_INTRODUCTION = """\
## On a real API server

`make bench-kube`: afflux and kube-scheduler in turn on the [testbed](testbed.md), each as \
shipped, with its own service account or certificate, but without a limit on its requests and \
with longer leases. {machine}; etcd, API server, load generator and scheduler share the cores, so \
a scheduler that uses less CPU is faster. Every run has a fresh control plane; the first scheduler \
changes from workload to workload. A Go program creates the pods and notes from one watch when \
each appeared and when it had its node. The null binder binds each pod at once to a machine chosen \
beforehand, at random among the valid ones, and does nothing else: this is the maximum rate of the \
API server. null-events also posts the event that every scheduler posts. After every run the API \
server's objects were checked for machines over capacity and pods on forbidden machines\
{failed}.{busy} All figures: [benchmarks/kube.json](benchmarks/kube.json).

- *plain*: pods that are all alike; *mixed*: 25 sizes; *constrained*: node affinity, required and \
preferred, taints and tolerations; *burst*: machines of which a twentieth is free, cut so \
that all pods fit if they are packed well; *trickle*: 20 plain pods a second.
- *stream*: pods are created as fast as the API server accepts them while the scheduler works, and \
time counts from the first creation; *backlog*: all pods exist when the scheduler becomes leader, \
and time counts from then. It ends with the last binding; the CPU of later events counts.
- CPU seconds are those of the scheduler's process and of the API server's, per 1,000 placed \
pods; memory is the process's peak. Imbalance is the standard deviation, and in brackets the \
range, of the requested share of each machine in percent: CPU, then memory.

![Speed and cost beside kube-scheduler](pictures/kube.svg)
"""

_CONSTRAINTS_INTRODUCTION = """\
## Constraints between pods, on a real API server

`make bench-constraints`, its second part: measured like the workloads [above]\
(#on-a-real-api-server), all as backlog. {machine}. After every run, violations of the rules about \
domains were looked for as well{failed}.{busy} All figures: \
[benchmarks/constraints.json](benchmarks/constraints.json).

{workloads}
"""


@dataclass(frozen=True, slots=True)
class _Kind:
    """A section: the file with its figures, and its introduction."""

    file: str
    introduction: str

    @property
    def begin(self) -> str:
        return BEGIN.format(file=self.file)


_WORKLOADS = _Kind("kube.json", _INTRODUCTION)
_CONSTRAINTS = _Kind(
    "constraints.json",
    _CONSTRAINTS_INTRODUCTION.replace(
        "{workloads}",
        "\n".join(
            f"- *{w.name}*: {w.about}, {w.pods:,} pods" for w in CONSTRAINT_WORKLOADS.values()
        ),
    ),
)
_HEADER = (
    *("nodes", "workload", "scheduler", "placed", "pods/s", "of null", "p50 ms", "p99 ms"),
    *("CPU s", "of peer", "API CPU s", "MiB", "imbalance"),
)


def rewritten(page: str, machine: str, runs: Sequence[Run]) -> str:
    """The page with the section of these runs, in its old place or at the end."""
    begin = _kind(runs).begin
    text = f"{begin}\n{section(machine, runs)}\n{END}\n"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(END)}\n", re.DOTALL)
    if pattern.search(page):
        return pattern.sub(lambda _: text, page, count=1)
    return f"{page.rstrip()}\n\n{text}"


def _kind(runs: Sequence[Run]) -> _Kind:
    constrained = all(run.workload in CONSTRAINT_WORKLOADS for run in runs)
    return _CONSTRAINTS if constrained else _WORKLOADS


def section(machine: str, runs: Sequence[Run]) -> str:
    """The section of these runs."""
    found = report.ordered(medians(runs))
    wrong = sum(bool(run.complaints) for run in runs)
    failed = f"; {wrong} of {len(runs)} runs failed" if wrong else ", and none were found"
    stolen = max((run.stolen or 0.0 for run in runs), default=0.0)
    busy = (
        f" Other processes took up to {stolen:.0%} of the machine."
        if stolen > MAX_UNMENTIONED_SHARE
        else ""
    )
    parts = [_kind(runs).introduction.format(machine=machine, failed=failed, busy=busy)]
    for mode in (STREAM, BACKLOG):
        lines = [_line(key, one, found) for key, one in found.items() if key[2] == mode]
        if lines:
            parts.append(f"**{mode.capitalize()}**\n\n{_table(_HEADER, lines)}\n")
    if lines := report.share_rows(found):
        parts.append(f"**Relative to the null binder**\n\n{_table(report.SHARES_HEADER, lines)}\n")
    if judged := report.goals(found):
        parts.append(_judgement(judged, found))
    return "\n".join(parts)


def _line(key: Key, one: Median, found: Mapping[Key, Median]) -> list[str]:
    nodes, workload, mode, scheduler = key
    null, peer = found.get((*key[:3], NULL)), found.get((*key[:3], PEER))
    of_null = share(one.pods_per_second, null.pods_per_second) if null else None
    of_peer = share(one.cpu_of(SCHEDULER), peer.cpu_of(SCHEDULER)) if peer else None
    waits = mode == STREAM
    balance = (
        f"{report.percent(one.cpu_deviation)} ({report.percent(one.cpu_range)}), "
        f"{report.percent(one.memory_deviation)} ({report.percent(one.memory_range)})"
    )
    return [
        f"{nodes:,}",
        workload,
        scheduler,
        "failed" if one.complaints else report.placed(one),
        report.number(one.pods_per_second),
        report.number(of_null, 2),
        report.milliseconds(one.p50_seconds) if waits else "-",
        report.milliseconds(one.p99_seconds) if waits else "-",
        report.number(one.cpu_of(SCHEDULER), 2),
        report.number(of_peer, 2) if scheduler == AFFLUX else "-",
        report.number(one.cpu_of(API_SERVER), 2),
        report.mebibytes(one.peak_bytes),
        balance,
    ]


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join(
        f"| {' | '.join('–' if cell == '-' else cell for cell in row)} |" for row in rows
    )


def _judgement(judged: Sequence[Goal], found: Mapping[Key, Median]) -> str:
    """The goals, and the cases in which they were missed, in words."""
    races = [goal for goal in judged if goal.workload != TRICKLE]
    slow = [goal for goal in races if not goal.fast]
    dear = [goal for goal in judged if not goal.cheap]
    lines = [
        "Goals: at least as many pods per second as kube-scheduler or 90 % of the null binder, "
        "with less CPU.",
        f"The speed goal was met in {len(races) - len(slow)} of {len(races)} cases"
        + (f", not in {_cases(slow, 'of_peer', 'of its speed')}." if slow else "."),
        f"Less CPU was used in {len(judged) - len(dear)} of {len(judged)}"
        + (f", not in {_cases(dear, 'cpu_of_peer', 'of its CPU')}." if dear else "."),
    ]
    lines += [
        f"At a trickle, on {nodes:,} nodes, afflux took {report.milliseconds(p50)} ms longer than "
        f"the null binder in the median and {report.milliseconds(p99)} ms longer at the 99th "
        f"percentile; the goal is at most {report.milliseconds(report.IDLE_SECONDS)} ms in the "
        "median."
        for nodes, p50, p99 in report.idle_delays(found)
    ]
    left = [
        f"{scheduler} {one.pods - (one.placed or 0):,.0f} of {one.pods:,} "
        f"({nodes:,} nodes, {workload}, {mode})"
        for (nodes, workload, mode, scheduler), one in found.items()
        if (one.placed or 0) < one.pods
    ]
    if left:
        lines.append(f"Pods that were not placed: {'; '.join(left)}.")
    return " ".join(lines) + "\n"


def _cases(goals: Sequence[Goal], figure: str, what: str) -> str:
    return ", ".join(
        f"{goal.workload} {goal.mode} at {goal.nodes:,} "
        f"({report.number(getattr(goal, figure), 2)} {what})"
        for goal in goals
    )
