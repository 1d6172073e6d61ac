"""Metrics of a running scheduler, with kube-scheduler's names where it has the same metric."""

import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from afflux.web.metric_families import Distribution, counters, exponential, histograms
from afflux.web.scheduler_metrics import Metrics, Started

MILLISECONDS = [0.001 * 2**i for i in range(15)]

# kube-scheduler 1.37: type, labels, upper bounds of the buckets.
KUBE_SCHEDULER: dict[str, tuple[str, set[str], list[float]]] = {
    "scheduler_schedule_attempts_total": ("counter", {"result", "profile"}, []),
    "scheduler_scheduling_attempt_duration_seconds": (
        "histogram",
        {"result", "profile"},
        MILLISECONDS,
    ),
    "scheduler_scheduling_algorithm_duration_seconds": ("histogram", set(), MILLISECONDS),
    "scheduler_pending_pods": ("gauge", {"queue"}, []),
    "scheduler_queue_incoming_pods_total": ("counter", {"queue", "event"}, []),
    "scheduler_pod_scheduling_attempts": ("histogram", set(), [1, 2, 4, 8, 16]),
    "scheduler_pod_scheduling_sli_duration_seconds": (
        "histogram",
        {"attempts"},
        [0.01 * 2**i for i in range(20)],
    ),
    "scheduler_preemption_attempts_total": ("counter", set(), []),
    "scheduler_preemption_victims": ("histogram", set(), [1, 2, 4, 8, 16, 32, 64]),
    "leader_election_master_status": ("gauge", {"name"}, []),
    "leader_election_slowpath_total": ("counter", {"name"}, []),
}


def busy() -> Metrics:
    """Metrics after every kind of event."""
    metrics = Metrics()
    metrics.decided(0.1, pods=3)
    metrics.scheduled("afflux", [Started(0.2, 1, 0.3), Started(0.2, 20, 60.0)])
    metrics.failed("unschedulable", "afflux", [0.1])
    metrics.pending({"active": 2, "gated": 1})
    metrics.queued("active", "UnscheduledPodAdd", 4)
    metrics.preempted(3)
    metrics.cycled(0.5, considered=4, placed=3, solves=2, gap=0.25)
    metrics.refused({"spread": 2, "resources": 1}, cut_searches=3, untried_sets=4)
    metrics.violated({"spread": 2, "node-affinity": 0})
    metrics.phase("decide", 0.01)
    metrics.bind_sent(2)
    metrics.binds_held_back(4)
    metrics.bind_answered("bound", 0.02)
    metrics.watched("pods", 5)
    metrics.relisted("pods")
    metrics.event("written")
    metrics.event_dropped()
    metrics.condition("gone")
    metrics.condition_dropped()
    metrics.leads("afflux", True)
    metrics.renewed_slowly("afflux")
    return metrics


def text(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


# --- Names, labels, buckets


def test_metrics_of_kube_scheduler_have_its_names_labels_and_buckets() -> None:
    found = {family.name: family for family in text_string_to_metric_families(text(busy()))}
    for name, (kind, labels, bounds) in KUBE_SCHEDULER.items():
        family = found[name.removesuffix("_total")]
        assert family.type == kind, name
        own = {label for sample in family.samples for label in sample.labels} - {"le"}
        assert own == labels, name
        seen = {
            float(sample.labels["le"])
            for sample in family.samples
            if sample.name.endswith("_bucket")
        }
        assert seen == ({*bounds, math.inf} if bounds else set()), name
        assert f"# TYPE {name} {kind}\n" in text(busy())


def test_other_metrics_have_the_prefix_of_afflux_or_of_the_process() -> None:
    names = {family.name for family in text_string_to_metric_families(text(busy()))}
    others = names - {name.removesuffix("_total") for name in KUBE_SCHEDULER}
    assert all(name.startswith(("afflux_", "process_", "python_")) for name in others), others
    assert {"process_cpu_seconds", "process_resident_memory_bytes"} <= others


def test_there_are_no_created_timestamps() -> None:
    assert "_created" not in text(busy())


def test_the_openmetrics_format_is_valid() -> None:
    written = generate_openmetrics(busy().registry).decode()
    names = {family.name for family in parse_openmetrics(written)}
    assert "scheduler_schedule_attempts" in names
    assert "afflux_cycle_duration_seconds" in names


def test_metrics_without_labels_begin_at_zero() -> None:
    metrics = Metrics()
    assert value(metrics, "scheduler_preemption_attempts_total") == 0
    assert value(metrics, "afflux_events_dropped_total") == 0
    assert value(metrics, "scheduler_pending_pods", queue="unschedulable") == 0


# --- Values


def test_bound_pods_count_by_result_and_by_number_of_attempts() -> None:
    metrics = busy()
    attempts = "scheduler_schedule_attempts_total"
    assert value(metrics, attempts, result="scheduled", profile="afflux") == 2
    assert value(metrics, attempts, result="unschedulable", profile="afflux") == 1
    sli = "scheduler_pod_scheduling_sli_duration_seconds_sum"
    assert value(metrics, sli, attempts="1") == pytest.approx(0.3)
    assert value(metrics, sli, attempts="15+") == 60
    assert value(metrics, "scheduler_pod_scheduling_attempts_sum") == 21
    assert value(metrics, "scheduler_scheduling_algorithm_duration_seconds_count") == 3


def test_a_queue_that_is_not_named_is_empty() -> None:
    metrics = busy()
    metrics.pending({"backoff": 7})
    assert value(metrics, "scheduler_pending_pods", queue="backoff") == 7
    assert value(metrics, "scheduler_pending_pods", queue="active") == 0


def test_binds_in_flight_are_those_without_an_answer() -> None:
    assert value(busy(), "afflux_binds_in_flight") == 1


def test_binds_held_back_are_as_last_reported() -> None:
    metrics = busy()
    assert value(metrics, "afflux_binds_held_back") == 4
    metrics.binds_held_back(0)
    assert value(metrics, "afflux_binds_held_back") == 0


def test_refused_proposals_are_counted_by_constraint() -> None:
    metrics = busy()
    metrics.refused({"spread": 5}, cut_searches=0, untried_sets=2)
    assert value(metrics, "afflux_refused_proposals_total", constraint="spread") == 7
    assert value(metrics, "afflux_refused_proposals_total", constraint="resources") == 1
    assert value(metrics, "afflux_cut_searches_total") == 3
    assert value(metrics, "afflux_untried_sets_total") == 6


def test_an_unknown_gap_is_nan() -> None:
    metrics = busy()
    assert value(metrics, "afflux_plan_gap_ratio") == 0.25
    metrics.cycled(0.1, considered=1, placed=0, solves=0, gap=None)
    assert math.isnan(value(metrics, "afflux_plan_gap_ratio") or 0)


# --- Families


@given(
    st.lists(st.floats(0, 1e6, allow_nan=False), max_size=100), st.sampled_from([0.001, 1.0, 7.3])
)
def test_observing_many_values_equals_observing_them_one_by_one(
    values: list[float], start: float
) -> None:
    bounds = exponential(start, 2, 12)
    at_once, one_by_one = Distribution(bounds), Distribution(bounds)
    at_once.observe_all(values)
    for each in values:
        one_by_one.observe(each)
    assert at_once.counts == one_by_one.counts
    assert at_once.total == pytest.approx(one_by_one.total)


def test_a_value_on_a_bound_counts_in_the_lower_bucket() -> None:
    seen = Distribution((1.0, 2.0))
    seen.observe_all([1.0, 2.0, 2.5])
    assert seen.snapshot()[0] == [("1.0", 1), ("2.0", 2), ("+Inf", 3)]


def test_a_wrong_number_of_labels_is_refused() -> None:
    family = counters(CollectorRegistry(), "a_total", "text", ["x", "y"])
    with pytest.raises(ValueError, match="expected values of"):
        family.of("1")


def test_two_metrics_of_one_name_are_refused() -> None:
    registry = CollectorRegistry()
    counters(registry, "a_total", "text")
    with pytest.raises(ValueError, match="Duplicated"):
        histograms(registry, "a", "text", (1.0,))


def test_increments_from_several_threads_all_count() -> None:
    family = counters(CollectorRegistry(), "a_total", "text", ["x"])

    def count() -> None:
        for _ in range(20_000):
            family.of("y").add()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert family.of("y").value == 80_000
