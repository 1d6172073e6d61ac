"""An independent simulator of batch queues: processors are a number.

The conventions of the literature: at equal times submissions come before terminations, with a pass
after every single event, and terminations go in the order of the log.
"""

import heapq
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    number: int
    submit: float
    run: float
    estimate: float
    processors: int


class BatchSimulator:
    """Free processors as a list of (time, change), summed anew for every question."""

    def __init__(self, jobs: list[Job], size: int, strategy: str, depth: int = 64) -> None:
        self.jobs = sorted(jobs, key=lambda job: job.submit)
        self.order = {job.number: place for place, job in enumerate(self.jobs)}
        self.size, self.strategy, self.depth = size, strategy, depth
        self.waiting: list[Job] = []
        self.running: dict[int, tuple[Job, float]] = {}
        self.starts: dict[int, float] = {}
        self.reservations: dict[int, float] = {}
        self.first_reservations: dict[int, float] = {}

    def run(self) -> dict[int, float]:
        arrivals = list(self.jobs)
        ends: list[tuple[float, int]] = []
        while arrivals or ends:
            if arrivals and (not ends or arrivals[0].submit <= ends[0][0]):
                job = arrivals.pop(0)
                now = job.submit
                self.waiting.append(job)
            else:
                now, place = heapq.heappop(ends)
                del self.running[self.jobs[place].number]
            for job in self.decide(now):
                self.waiting.remove(job)
                self.starts[job.number] = now
                self.running[job.number] = (job, now + job.estimate)
                heapq.heappush(ends, (now + job.run, self.order[job.number]))
        return self.starts

    def decide(self, now: float) -> list[Job]:
        free = self.size - sum(job.processors for job, _ in self.running.values())
        # What is taken in this pass: (from, until, processors). A start at once is before now.
        taken: list[tuple[float, float, int]] = []
        chosen: list[Job] = []
        old, self.reservations = self.reservations, {}
        if self.strategy == "conservative-compress":
            taken += [
                (old[job.number], old[job.number] + job.estimate, job.processors)
                for job in self.waiting
                if job.number in old
            ]
        most = {
            "fcfs": 0, "easy": 1, "hybrid": self.depth,
            "conservative-compress": math.inf, "conservative-rebuild": math.inf,
        }[self.strategy]  # fmt: skip
        for job in list(self.waiting):
            if self.strategy == "conservative-compress" and job.number in old:
                taken.remove((old[job.number], old[job.number] + job.estimate, job.processors))
            if self._fits(free, now, taken, now - 1, job, at_once=True):
                chosen.append(job)
                taken.append((now - 1, now + job.estimate, job.processors))
                continue
            if self.strategy == "fcfs":
                break
            if len(self.reservations) < most:
                times = {now} | {max(end, now) for _, end in self.running.values()}
                times |= {until for _, until, _ in taken}
                start = next(
                    at
                    for at in sorted(times)
                    if at >= now and self._fits(free, now, taken, at, job, at_once=False)
                )
                self.reservations[job.number] = start
                self.first_reservations.setdefault(job.number, start)
                taken.append((start, start + job.estimate, job.processors))
        return chosen

    def _fits(self, free, now, taken, at, job, *, at_once) -> bool:
        """Whether the job fits from `at` on: at every time at which something changes."""
        end = max(at, now) + job.estimate
        moments = {at} | {begin for begin, _, _ in taken if at <= begin < end}
        if at_once:
            moments.add(now)
        for moment in moments:
            room = free
            if moment >= now:
                room += sum(
                    job.processors for job, until in self.running.values() if until <= moment
                )
            room -= sum(n for begin, until, n in taken if begin <= moment < until)
            if room < job.processors:
                return False
        return True
