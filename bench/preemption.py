"""python -m bench.preemption: afflux and kube-scheduler preempt on a real API server, in turn.

A full cluster: on every machine ten running pods of low priority, which count towards disruption
budgets. Then pods of high priority and of mixed size arrive at once. Printed are how many of them
started and how fast, how many pods left for them, and how many of those beyond their budgets.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from testbed import ControlPlane, Manifest, build, build_helm

from afflux.cli.text_table import format_table
from bench.kube.schedulers import AFFLUX, PEER, afflux, kube_scheduler

SCHEDULERS: dict[str, Callable[[ControlPlane], Generator[int]]] = {
    AFFLUX: afflux,
    PEER: kube_scheduler,
}
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
PODS_PER_NODE = 10
APPS = 100
# How many pods of each application may leave.
ALLOWED = 5
SIZES = (1, 2, 4, 8, 16)
# No pod started for so long: no further one will.
QUIET_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What one scheduler did."""

    scheduler: str
    nodes: int
    arrivals: int
    started: int
    seconds: float
    evicted: int
    beyond_budgets: int

    @property
    def pods_per_second(self) -> float:
        return self.started / self.seconds if self.seconds else 0.0


def main() -> None:
    """Measures both schedulers and prints a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.preemption", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--arrivals", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--schedulers", nargs="+", choices=SCHEDULERS, default=list(SCHEDULERS))
    parser.add_argument("--json", metavar="FILE", help="also write the figures to a file")
    options = parser.parse_args()
    build()
    build_helm()
    found = [
        measure(name, options.nodes, options.arrivals, options.seed) for name in options.schedulers
    ]
    header = ["scheduler", "started", "seconds", "pods/s", "evicted", "beyond budgets"]
    rows = [
        [
            each.scheduler,
            f"{each.started} of {each.arrivals}",
            f"{each.seconds:.1f}",
            f"{each.pods_per_second:.0f}",
            str(each.evicted),
            str(each.beyond_budgets),
        ]
        for each in found
    ]
    print(format_table(header, rows))
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n")


def measure(name: str, nodes: int, arrivals: int, seed: int) -> Figures:
    """One scheduler on a control plane of its own."""
    random = Random(seed)
    with ControlPlane() as plane:
        machines = plane.create_nodes(nodes, cpu="32")
        for value, of in ((1000, "high"), (0, "low")):
            plane.api.create(CLASSES, {"metadata": {"name": of}, "value": value})
        plane.create_pods(_running(machines, random))
        per_app = nodes * PODS_PER_NODE // APPS
        for app in range(APPS):
            plane.api.create(BUDGETS, _budget(app, per_app - ALLOWED))
        plane.wait_until(lambda: _budgets_are_known(plane), "the budgets", 300)
        with contextmanager(SCHEDULERS[name])(plane):
            began = time.monotonic()
            plane.create_pods([_arrival(number, random) for number in range(arrivals)])
            last, started = began, 0
            while started < arrivals and time.monotonic() - last < QUIET_SECONDS:
                time.sleep(0.2)
                now = _started(plane)
                if now > started:
                    last, started = time.monotonic(), now
        left = [each for each in plane.pods("default") if _app(each) is not None]
        stay = [each for each in left if "deletionTimestamp" not in each["metadata"]]
        gone = {f"app-{app}": per_app for app in range(APPS)}
        for app, count in Counter(_app(each) for each in stay).items():
            gone[str(app)] -= count
        beyond = sum(max(0, count - ALLOWED) for count in gone.values())
        return Figures(name, nodes, arrivals, started, last - began, sum(gone.values()), beyond)


def _running(machines: list[str], random: Random) -> list[Manifest]:
    """Ten pods on each machine, which together leave little room."""
    pods: list[Manifest] = []
    apps = [number % APPS for number in range(len(machines) * PODS_PER_NODE)]
    random.shuffle(apps)
    for number, machine in enumerate(machines):
        for place in range(PODS_PER_NODE):
            app = apps[number * PODS_PER_NODE + place]
            pod = _pod(f"low-{number}-{place}", "low", 2 + place % 3)
            pod["metadata"]["labels"] = {"app": f"app-{app}"}
            pod["spec"] |= {"nodeName": machine, "terminationGracePeriodSeconds": 1}
            pods.append(pod)
    return pods


def _arrival(number: int, random: Random) -> Manifest:
    return _pod(f"high-{number}", "high", random.choice(SIZES))


def _pod(name: str, priority: str, cpu: int) -> Manifest:
    requests = {"cpu": str(cpu)}
    container = {"name": "main", "image": "none", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"priorityClassName": priority, "containers": [container]},
    }


def _budget(app: int, least: int) -> Manifest:
    selector = {"matchLabels": {"app": f"app-{app}"}}
    return {
        "metadata": {"name": f"app-{app}"},
        "spec": {"minAvailable": least, "selector": selector},
    }


def _budgets_are_known(plane: ControlPlane) -> bool:
    budgets = plane.api.list(BUDGETS)
    return all(each.get("status", {}).get("disruptionsAllowed") == ALLOWED for each in budgets)


def _started(plane: ControlPlane) -> int:
    pods = plane.pods("default")
    return sum(_app(each) is None and bool(each["spec"].get("nodeName")) for each in pods)


def _app(pod: Manifest) -> str | None:
    labels: dict[str, str] = pod["metadata"].get("labels") or {}
    return labels.get("app")


if __name__ == "__main__":
    main()
