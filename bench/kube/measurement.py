"""Measures one run: a fresh control plane, machines, a scheduler and the work, then checks it.

Every run starts fresh: no pods, no history in etcd, no heap in the API server. All schedulers see
the same cluster and share the processors with the same processes.
"""

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from testbed import ControlPlane, build_load, components, verdict
from testbed.processes import cpu_seconds, tail

from bench.kube.load_driver import LoadDriver, Progress
from bench.kube.plans import Plan, as_json, complaints
from bench.kube.results import (
    API_SERVER,
    BACKLOG,
    ETCD,
    LOAD,
    SCHEDULER,
    STREAM,
    Run,
    Seen,
    imbalance,
    quantile,
    waits,
)
from bench.kube.schedulers import BenchScheduler, Site

# Schedulers need only this controller. Others would use processor time that varies between runs.
CONTROLLERS = "serviceaccount-controller"
CREATORS = 16
WARM_PODS = 64
# If no pod was bound for this long, the rest will not be: longer than kube-scheduler's backoff of
# at most 10 s.
NO_PROGRESS_SECONDS = 12.0
# Processes that use less than this share of a processor twice in a row are idle.
IDLE_SHARE = 0.05
IDLE_SECONDS = 0.4
MAX_IDLE_WAITS = 50


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds used so far: of each process, and of the whole machine."""

    at: float
    parts: dict[str, float]
    machine: float

    def since(self, before: "Usage") -> dict[str, float]:
        """CPU seconds of each process since `before`."""
        return {name: used - before.parts[name] for name, used in self.parts.items()}

    def stolen(self, before: "Usage") -> float:
        """The share of the CPU time since `before` that other processes used."""
        ours = sum(self.since(before).values())
        there = (self.at - before.at) * _processors()
        return max(0.0, self.machine - before.machine - ours) / there if there > 0 else 0.0


def measure(
    planned: Run, plan: Plan, scheduler: BenchScheduler, progress: Progress | None = None
) -> Run:
    """Carries out a planned run and returns it with its measurements."""
    load = build_load()
    options = components.Options(audit=False, controllers=CONTROLLERS)
    with ControlPlane(options=options, machines=False) as plane:
        file = plane.directory / "plan.json"
        file.write_text(as_json(plan, WARM_PODS, CREATORS))
        with LoadDriver(load, plane.kubeconfig, file, plane.log("load")) as driver:
            driver.tell("nodes")
            if plan.fill:
                driver.tell("create", "fill")
            if planned.mode == BACKLOG:
                driver.tell("hold", scheduler.lease)
            with contextmanager(scheduler.running)(Site(plane, file, load)) as pid:
                parts = _parts(plane, pid, driver)
                if planned.mode == STREAM:
                    _warm_up(driver, plane, scheduler)
                _settle(parts)
                return _run(planned, plan, plane, driver, parts, progress)


def _run(
    planned: Run,
    plan: Plan,
    plane: ControlPlane,
    driver: LoadDriver,
    parts: dict[str, int],
    progress: Progress | None,
) -> Run:
    before = _usage(parts)
    created = driver.tell("create", "pods", progress=progress)
    # A stream begins with the first creation, a backlog when the scheduler becomes leader.
    began: float = created["began"]
    if planned.mode == BACKLOG:
        began = driver.tell("release")["ended"]
    driver.tell("await", "pods", str(NO_PROGRESS_SECONDS), progress=progress)
    busy = _usage(parts)
    _settle({SCHEDULER: parts[SCHEDULER]})
    after = _usage(parts)
    seen = Seen(**driver.tell("report", "pods"))
    # The API server closes connections that were idle for long; a new one is not.
    plane.api.close()
    where = {pod.name: name for pod, name in zip(plan.pods, seen.nodes, strict=True) if name}
    bound = [when for when in seen.bound if when >= 0]
    waited = waits(seen, began if planned.mode == BACKLOG else None)
    return replace(
        planned,
        placed=len(bound),
        seconds=max(bound, default=began) - began,
        first_seconds=min(bound, default=began) - began,
        create_seconds=created["ended"] - created["began"],
        p50_seconds=quantile(waited, 0.5),
        p99_seconds=quantile(waited, 0.99),
        cpu_seconds=after.since(before),
        peak_bytes=_peak_bytes(parts[SCHEDULER]),
        events=_events(plane),
        settle_seconds=after.at - busy.at if len(bound) == planned.pods else None,
        imbalance=imbalance(plan, where),
        stolen=busy.stolen(before),
        complaints=[*_ended(planned.scheduler, plane, parts), *_wrong(plan, plane, where)],
    )


def _warm_up(driver: LoadDriver, plane: ControlPlane, scheduler: BenchScheduler) -> None:
    """Schedules a few pods first, so that all processes have connections and warm caches."""
    driver.tell("create", "warm")
    driver.tell("await", "warm", "60")
    if -1 in driver.tell("report", "warm")["bound"]:
        raise RuntimeError(
            f"{scheduler.name} did not place the pods that warm it up within 60 s; "
            f"the end of its log:\n{tail(plane.log(scheduler.name))}"
        )
    driver.tell("delete", "warm")


def _ended(name: str, plane: ControlPlane, parts: dict[str, int]) -> list[str]:
    """A complaint if the scheduler ended too early. An ended process uses no memory."""
    if _peak_bytes(parts[SCHEDULER]):
        return []
    return [f"{name} ended before its work was done; the end of its log:\n{tail(plane.log(name))}"]


def _wrong(plan: Plan, plane: ControlPlane, where: dict[str, str]) -> list[str]:
    """Machines over capacity by the API server's objects, and pods on forbidden machines."""
    pods = plane.pods("default")
    assigned = {
        name: node
        for pod in pods
        if (node := pod["spec"].get("nodeName")) and (name := pod["metadata"]["name"])
    }
    found = verdict.over_capacity(plane.nodes(), pods)
    found += [
        f"pod {name} was seen on {node}, the API server says {assigned.get(name, 'nowhere')}"
        for name, node in where.items()
        if assigned.get(name) != node
    ]
    return found + complaints(plan, where)


def _events(plane: ControlPlane) -> int:
    """The number of events, without reading all of them."""
    page = plane.api.get("/apis/events.k8s.io/v1/events", limit=1)
    return len(page["items"]) + page["metadata"].get("remainingItemCount", 0)


def _parts(plane: ControlPlane, pid: int, driver: LoadDriver) -> dict[str, int]:
    return {
        SCHEDULER: pid,
        API_SERVER: plane.pid(components.API_SERVER),
        ETCD: plane.pid(components.ETCD),
        LOAD: driver.pid,
        components.CONTROLLER_MANAGER: plane.pid(components.CONTROLLER_MANAGER),
    }


def _settle(parts: dict[str, int]) -> None:
    """Waits until these processes are idle, at most MAX_IDLE_WAITS times."""
    before, idle = _usage(parts), 0
    for _ in range(MAX_IDLE_WAITS):
        time.sleep(IDLE_SECONDS)
        now = _usage(parts)
        busy = any(used > IDLE_SHARE * IDLE_SECONDS for used in now.since(before).values())
        idle = 0 if busy else idle + 1
        if idle == 2:
            return
        before = now


def _usage(parts: dict[str, int]) -> Usage:
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    # user, nice, system, idle, iowait, irq, softirq, in hundredths of a second
    machine = sum(int(fields[place]) for place in (0, 1, 2, 5, 6)) / 100
    used = {name: cpu_seconds(pid) for name, pid in parts.items()}
    return Usage(time.monotonic(), used, machine)


def _processors() -> int:
    lines = Path("/proc/stat").read_text().splitlines()
    return sum(line.startswith("cpu") for line in lines) - 1


def _peak_bytes(pid: int) -> int:
    """The peak resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
