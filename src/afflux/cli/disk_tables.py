"""afflux diskio show: what every disk has left, what is reserved on it, and what is measured."""

from collections.abc import Sequence

from afflux import app
from afflux.cli.data_output import print_data
from afflux.cli.diskio_arguments import ShowOptions
from afflux.cli.exit_codes import ExitCode
from afflux.cli.file_arguments import read_source
from afflux.cli.output_option import is_data
from afflux.cli.safe_output import print_error
from afflux.cli.text_table import format_table
from afflux.kube.disk_objects import NoDisksError, disks_of_files
from afflux.kube.disks.disk_overview import NodeView, PodOnDisk
from afflux.model.errors import InputError

VERSION = 1
_MIB = 2**20


def show(options: ShowOptions) -> ExitCode:
    """Reads the objects of the files or of the cluster, and prints them."""
    if options.files and (options.kubeconfig or options.context):
        raise InputError("FILE: given with --kubeconfig or --context, expected one of the two")
    if options.files.count("-") > 1:
        raise InputError("FILE: '-' is given twice; standard input can be read only once")
    try:
        if options.files:
            views = disks_of_files([read_source(path) for path in options.files])
        else:
            views = app.disks_of_cluster(options.kubeconfig, options.context)
    except NoDisksError as error:
        print_error(f"afflux diskio show: {error}")
        return ExitCode.NO_ANSWER
    if is_data(options.output):
        print_data({"version": VERSION, "nodes": [_data(each) for each in views]}, options.output)
    elif not views:
        print("No disks are reported.")
    else:
        print(_table(views, wide=options.output == "wide"))
    return ExitCode.DONE


def _data(view: NodeView) -> dict[str, object]:
    return {
        "node": view.node,
        "generation": view.generation,
        "observedGeneration": view.observed,
        "reportedAt": view.reported_at or None,
        "remarks": list(view.remarks),
        "disks": [
            {
                "id": disk.id,
                "name": name,
                "model": disk.model or None,
                "left": {
                    "read": disk.left.read,
                    "write": disk.left.write,
                    "total": disk.left.total,
                },
                "pods": [_pod_data(each) for each in view.pods.get(disk.id, ())],
            }
            for disk, name in view.disks
        ],
        "podsWithoutDisk": [_pod_data(each) for each in view.pods.get("", ())],
    }


def _pod_data(pod: PodOnDisk) -> dict[str, object]:
    return {
        "uid": pod.uid,
        "pod": pod.name or None,
        "stated": {"read": pod.stated_read, "write": pod.stated_write},
        "measured": {"read": round(pod.measured.read), "write": round(pod.measured.write)},
    }


def _table(views: Sequence[NodeView], *, wide: bool) -> str:
    header = ["NODE", "DISK", "MODEL", "LEFT", "READ", "WRITE", "STATED", "MEASURED", "PODS"]
    rows: list[list[str]] = []
    for view in views:
        for disk, name in view.disks:
            pods = view.pods.get(disk.id, ())
            left = disk.left
            row = [view.node, disk.id, disk.model or "-", *map(_mib, (left.total, left.read))]
            row += [_mib(left.write), *_sums(pods), str(len(pods))]
            rows.append(row + ([name or "-", _names(pods)] if wide else []))
        lost = view.pods.get("", ())
        if lost or not view.disks:
            row = [view.node, "-", "-", "-", "-", "-", *_sums(lost), str(len(lost))]
            rows.append(row + (["-", _names(lost)] if wide else []))
    if wide:
        header += ["NAME", "NAMES"]
    text = format_table(header, rows, right_align=False)
    remarks = [f"{view.node}: {remark}" for view in views for remark in view.remarks]
    return "\n".join([text, *remarks])


def _sums(pods: Sequence[PodOnDisk]) -> list[str]:
    stated = sum(each.stated_read + each.stated_write for each in pods)
    measured = sum(each.measured.read + each.measured.write for each in pods)
    return [_mib(stated), _mib(measured)]


def _names(pods: Sequence[PodOnDisk]) -> str:
    return ",".join(each.name or each.uid for each in pods) or "-"


def _mib(amount: float) -> str:
    return f"{amount / _MIB:.1f}Mi"
