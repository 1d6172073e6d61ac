"""What tasks lose to each other on disks over a day, with the policy disk-io and without; a plot.

python -m bench.disk_io.simulation --plot docs/pictures/disk-throughput.svg
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from afflux.app import simulated_schedulers
from afflux.sim.disk_contention import DiskContention, disk_contention
from afflux.sim.replay import replay
from afflux.sim.report.scales import LinearScale
from afflux.sim.report.svg import Area, coordinate, label, path, rule, step_line
from afflux.sim.report.time_bins import mean_over_time
from afflux.sim.result_columns import Floats
from afflux.sim.workload_loader import load_workload

WORKLOAD = "synthetic:disk-io"
SCHEDULERS = ("cpu-memory", "cpu-memory+disk-io", "pod-by-pod")
HOURS = 24
_STYLES = ("plain", "aware", "peer")
_BINS = 180
_AREA = Area(880.0, 260.0, left=52.0, right=24.0, top=44.0, bottom=34.0)
_STYLE = """
svg{font-family:system-ui,sans-serif;font-size:12px}
.t{fill:#1d2733;font-size:14px}.tick{fill:#51606f}.grid{stroke:#51606f;stroke-opacity:.15}
.line{fill:none;stroke-width:1.6}.plain{stroke:#3b6ea5}.aware{stroke:#2e8b57;stroke-width:2.6}
.peer{stroke:#a5803b}
@media (prefers-color-scheme: dark){.t{fill:#e8eef5}.tick{fill:#aebac6}.grid{stroke:#aebac6}
.plain{stroke:#7fb0e6}.aware{stroke:#6fd19b}.peer{stroke:#d9b36c}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.disk_io.simulation")
    parser.add_argument("--workload", default=WORKLOAD)
    parser.add_argument("--plot", metavar="FILE", help="write the plot here")
    options = parser.parse_args()
    workload = load_workload([options.workload], None)
    found: list[DiskContention] = []
    for scheduler in simulated_schedulers(SCHEDULERS):
        contention = disk_contention(replay(workload, scheduler))
        if contention is None:
            parser.error(f"--workload: {options.workload!r} has no disks; expected disk=...")
        share = contention.lost_share or 0.0
        print(
            f"{scheduler.name:20} {contention.wanted_bytes / 1e12:8.1f} TB wanted,"
            f" {100 * share:5.2f} % lost, {contention.slowed_tasks} of {contention.tasks} tasks"
            " slowed"
        )
        found.append(contention)
    if options.plot:
        Path(options.plot).write_text(_draw(options.workload, found), encoding="utf-8")


def _draw(workload: str, found: Sequence[DiskContention]) -> str:
    shares = [_lost_share(each) for each in found]
    high = max(0.01, *(float(share.max()) for share in shares)) * 1.05
    x, y = LinearScale(0.0, HOURS, *_AREA.x_range), LinearScale(0.0, high, *_AREA.y_range)
    body = [label(_AREA.left, 18, f"Disk throughput lost to neighbours, {workload}", "t", "start")]
    for level in np.arange(0.0, high, 0.02):
        at = float(y.positions(np.array([level]))[0])
        body.append(rule(_AREA.left, at, _AREA.width - _AREA.right, at))
        body.append(label(_AREA.left - 8, at + 4, f"{100 * level:.0f} %", anchor="end"))
    for hour in range(0, HOURS + 1, 6):
        at = float(x.positions(np.array([hour]))[0])
        body.append(label(at, _AREA.height - 12, f"{hour} h"))
    edges = x.positions(np.linspace(0.0, HOURS, _BINS + 1))
    for number, (share, style) in enumerate(zip(shares, _STYLES, strict=True)):
        body.append(path(step_line(edges, y.positions(share)), f"line {style}"))
        left = _AREA.left + 8 + 190 * number
        body.append(rule(left, 32, left + 18, 32, f"line {style}"))
        body.append(label(left + 24, 36, SCHEDULERS[number], "tick", "start"))
    size = f"{coordinate(_AREA.width)} {coordinate(_AREA.height)}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" role="img" '
        'aria-label="Disk throughput lost to neighbours over a day">'
        f"<style>{_STYLE}</style>\n" + "\n".join(body) + "\n</svg>\n"
    )


def _lost_share(found: DiskContention) -> Floats:
    span = (0.0, HOURS * 3600.0)
    wanted, lost = (
        mean_over_time(found.starts, found.stops, rates, span=span, bins=_BINS)[0]
        for rates in (found.wanted, found.lost)
    )
    return np.divide(lost, wanted, out=np.zeros(_BINS), where=wanted > 0)


if __name__ == "__main__":
    main()
