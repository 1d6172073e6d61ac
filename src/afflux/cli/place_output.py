"""The answer of `afflux place`, as tables and for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from afflux.cli.data_output import print_data, print_data_sharing
from afflux.cli.output_option import DataForm, Output, is_data
from afflux.cli.quantity_format import bytes_text, cpu_text
from afflux.cli.safe_output import printable
from afflux.cli.text_table import format_table
from afflux.model.eviction import Eviction
from afflux.model.placement import Placement
from afflux.model.resources import CPU, MEMORY, amount_of
from afflux.model.task import Task
from afflux.plan.explain import Verdicts

VERSION = 1


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod that waits, why, and its reserved start if it has a reservation."""

    task: Task
    reason: str
    expected_start: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What starts, what waits, which running pods are evicted, and the pods that wait for a place
    which these leave."""

    placements: Sequence[Placement]
    waiting: Sequence[WaitingPod]
    evictions: Sequence[Eviction] = ()
    nominations: Sequence[Placement] = ()


def print_answer(
    output: Output, answer: Answer, node_verdicts: Mapping[str, Verdicts] | None
) -> None:
    """Prints the answer and, if there are verdicts, those."""
    if is_data(output):
        _print_data(output, answer, node_verdicts)
    else:
        _print_tables(answer, node_verdicts or {}, wide=output == "wide")


def _print_data(
    form: DataForm, found: Answer, node_verdicts: Mapping[str, Verdicts] | None
) -> None:
    """Prints the documented, versioned answer."""
    answer: dict[str, object] = {
        "version": VERSION,
        "placements": [{"pod": p.task.name, "node": p.machine} for p in found.placements],
        "waiting": [
            {"pod": each.task.name, "reason": each.reason}
            | ({"expectedStart": each.expected_start} if each.expected_start else {})
            for each in found.waiting
        ],
        "evictions": [
            {
                "pod": each.task.name,
                "node": each.machine,
                "cause": each.cause.value,
                "for": [task.name for task in each.needed_by],
            }
            for each in found.evictions
        ],
        "nominated": [{"pod": p.task.name, "node": p.machine} for p in found.nominations],
    }
    if node_verdicts is None:
        print_data(answer, form)
    else:
        # Pods times nodes can be large; equal pods share their verdicts.
        print_data_sharing(answer, form, "verdicts", node_verdicts, _verdict_data)


def _verdict_data(nodes: Verdicts) -> dict[str, object]:
    return {node: {"fits": not why, "reasons": why} for node, why in nodes.items()}


def _print_tables(answer: Answer, node_verdicts: Mapping[str, Verdicts], *, wide: bool) -> None:
    placements, waiting = answer.placements, answer.waiting
    if not placements and not waiting:
        print("No pending pods.")
    more = ["CPU", "MEMORY"] if wide else []
    rows = [[p.task.name, p.machine, *(_requests(p.task) if wide else ())] for p in placements]
    blank = _print_table(["POD", "NODE", *more], rows, "")
    rows = [
        [e.task.name, e.machine, e.cause.value, ", ".join(task.name for task in e.needed_by)]
        for e in answer.evictions
    ]
    blank = _print_table(["EVICTED", "NODE", "CAUSE", "FOR"], rows, blank)
    rows = [[p.task.name, p.machine] for p in answer.nominations]
    blank = _print_table(["NOMINATED", "NODE"], rows, blank)
    starts = wide or any(each.expected_start for each in waiting)
    header = ["WAITING", *more, *(["EXPECTED START"] if starts else []), "REASON"]
    rows = [
        [
            each.task.name,
            *(_requests(each.task) if wide else ()),
            *([each.expected_start or "-"] if starts else []),
            each.reason,
        ]
        for each in waiting
    ]
    _print_table(header, rows, blank)
    drawn: dict[int, str] = {}
    for pod, nodes in node_verdicts.items():
        if id(nodes) not in drawn:
            drawn[id(nodes)] = _verdict_table(nodes)
        fitting = sum(not reasons for reasons in nodes.values())
        print(f"\n{printable(pod)}: {fitting} of {len(nodes)} nodes had room before the round")
        print(drawn[id(nodes)])


def _verdict_table(nodes: Verdicts) -> str:
    rows = [[f"  {node}", "; ".join(reasons) or "fits"] for node, reasons in nodes.items()]
    return format_table(["  NODE", "VERDICT"], rows, right_align=False)


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]], blank: str) -> str:
    """Prints the table if it has rows; returns what separates the next one from those printed."""
    if not rows:
        return blank
    print(blank + format_table(header, rows, right_align=False))
    return "\n"


def _requests(task: Task) -> list[str]:
    requests = task.shape.requests
    return [cpu_text(amount_of(requests, CPU)), bytes_text(amount_of(requests, MEMORY))]
