"""Bindings in order: what requires other pods is bound after them, and fails with them."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

import pytest
import volume_cluster
from small_api import Fault, Object, Request, run, until
from volume_cluster import Cluster, claim, disk, node, pod, storage_class

from afflux.kube.live.binder import BinderTimes

clusters = partial(
    volume_cluster.clusters,
    binder_times=BinderTimes(
        initial_backoff_seconds=0.01,
        initial_refusal_backoff_seconds=0.05,
        shutdown_timeout_seconds=0.05,
    ),
)


def needs(of: Object, app: str, key: str = "zone", *spaces: str) -> Object:
    """The pod with a required affinity term for pods with this label."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    if spaces:
        term["namespaces"] = list(spaces)
    affinity = of["spec"].setdefault("affinity", {}).setdefault("podAffinity", {})
    affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).append(term)
    return of


def app(name: str, *claims: str, app: str = "", **fields: object) -> Object:
    """A pod with the label app; by default its name."""
    made = pod(name, *claims, **fields)
    made["metadata"]["labels"]["app"] = app or name
    return made


def binding_of(request: Request) -> str:
    """The name of the pod that the request binds, "" for other requests."""
    names = request.path.split("/")
    return names[-2] if names[-1] == "binding" else ""


def attempts(cluster: Cluster) -> list[str]:
    """The pods of all binding requests, in order."""
    return [name for request in cluster.server.requests if (name := binding_of(request))]


def failing(cluster: Cluster, fault: Callable[[], Fault], *names: str) -> None:
    """The bindings of these pods get this fault."""
    cluster.server.fault = lambda request: fault() if binding_of(request) in names else Fault()


def test_dependents_are_bound_after_their_anchor_and_others_meanwhile() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            cluster.add(node("n", cpu="64"))
            cluster.add(*(needs(app(f"web{n}"), "db") for n in range(10)), app("db"))
            cluster.add(*(app(f"other{n}") for n in range(20)))
            answer = asyncio.Event()
            failing(cluster, lambda: Fault(until=answer), "db")
            async with cluster.at_work():
                await until(lambda: cluster.places().keys() >= {f"other{n}" for n in range(20)})
                assert {name for name in attempts(cluster) if "web" in name} == set()
                await cluster.binder.all_sent()
                answer.set()
                await cluster.all_placed(*(f"web{n}" for n in range(10)))
        assert len(attempts(cluster)) == 31

    run(test)


def test_dependents_of_a_refused_anchor_are_decided_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with clusters() as cluster:
            cluster.add(node("n", cpu="64"))
            cluster.add(*(needs(app(f"web{n}"), "db") for n in range(3)), app("db"))
            failing(cluster, lambda: Fault(status=403), "db")
            async with cluster.at_work():
                await until(lambda: attempts(cluster).count("db") == 3)
                assert set(attempts(cluster)) == {"db"}
                cluster.server.fault = lambda _: Fault()
                await cluster.all_placed("db", "web0", "web1", "web2")
            assert attempts(cluster).index("web0") > attempts(cluster).index("db")

    with caplog.at_level(logging.WARNING):
        run(test)
    assert "default/db was not bound: 3 pods that depend on it by required affinity" in caplog.text


def test_another_pod_of_the_group_is_the_first_if_the_first_is_refused() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            cluster.add(node("n", cpu="64"))
            names = [f"x{n}" for n in range(20)]
            cluster.add(*(needs(app(name, app="x"), "x") for name in names))
            refused: list[str] = []

            def fault(request: Request) -> Fault:
                name = binding_of(request)
                if not name or (refused and name != refused[0]):
                    assert not name or cluster.places() or name != refused[0]
                    return Fault()
                refused[:] = [name]
                return Fault(status=403)

            cluster.server.fault = fault
            async with cluster.at_work():
                await until(lambda: len(cluster.places()) == 19)
                cluster.server.fault = lambda _: Fault()
                await cluster.all_placed(*names)

    run(test)


def test_what_keeps_failing_with_its_anchor_waits_and_says_why() -> None:
    """Otherwise a webhook that refuses a whole group would keep the cycle busy."""

    async def test() -> None:
        async with clusters() as cluster:
            cluster.add(node("n", cpu="64"))
            cluster.add(*(needs(app(f"x{n}", app="x"), "x") for n in range(3)))
            failing(cluster, lambda: Fault(status=403), "x0", "x1", "x2")
            words = "on which it depends by required affinity, was not bound; trying again after"
            async with cluster.at_work():
                await until(lambda: any(words in why for why in cluster.recorded.reasons.values()))
                cluster.server.fault = lambda _: Fault()
                await cluster.all_placed("x0", "x1", "x2")

    run(test)


def test_dependents_wait_for_an_anchor_without_an_answer() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            cluster.add(node("n", cpu="64"), needs(app("web"), "db"), app("db"))
            failing(cluster, lambda: Fault(hang_up_before=True), "db")
            async with cluster.at_work():
                await until(lambda: attempts(cluster).count("db") >= 5)
                assert "web" not in attempts(cluster)
                # It was bound, and the answer is lost.
                failing(cluster, lambda: Fault(hang_up_after=True), "db")
                await cluster.all_placed("db", "web")

    run(test)


def test_a_pod_of_a_later_cycle_waits_for_an_anchor_that_is_not_confirmed() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            cluster.add(node("n", cpu="64"), app("db"))
            answers = [asyncio.Event(), asyncio.Event()]

            def fault(request: Request) -> Fault:
                is_first = attempts(cluster).count("db") == 1
                return Fault(before_seconds=0.3, status=403) if is_first else Fault()

            cluster.server.fault = lambda r: fault(r) if binding_of(r) == "db" else Fault()
            async with cluster.at_work():
                await until(lambda: attempts(cluster) == ["db"])
                rounds = cluster.recorded.rounds
                cluster.add(needs(app("web"), "db"))
                await until(lambda: cluster.recorded.rounds > rounds)
                assert cluster.binder.held == 1
                await cluster.all_placed("db", "web")
            assert attempts(cluster) == ["db", "db", "web"]
            assert not any(each.is_set() for each in answers)

    run(test)


def test_a_chain_fails_as_a_whole() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            cluster.add(node("n", cpu="64"), app("c0"))
            cluster.add(*(needs(app(f"c{n}"), f"c{n - 1}") for n in range(1, 6)))
            failing(cluster, lambda: Fault(status=403), "c2")
            async with cluster.at_work():
                await until(lambda: attempts(cluster).count("c2") == 2)
                assert set(cluster.places()) == {"c0", "c1"}
                cluster.server.fault = lambda _: Fault()
                await cluster.all_placed(*(f"c{n}" for n in range(6)))
            last = {name: index for index, name in enumerate(attempts(cluster))}
            assert sorted(last, key=lambda name: last[name]) == [f"c{n}" for n in range(6)]

    run(test)


def test_pods_that_require_each_other_are_bound_without_waiting_for_each_other() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            cluster.add(node("n", cpu="64"), needs(app("a"), "b"), needs(app("b"), "a"))
            async with cluster.at_work():
                await cluster.all_placed("a", "b")
            assert sorted(attempts(cluster)) == ["a", "b"]

    run(test)


def test_a_reason_names_no_pod_of_another_namespace() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            reasons: list[str] = []
            cluster.add(node("n", cpu="64"))
            web = needs(app("web"), "db", "zone", "default", "secret")
            db = app("db")
            web["metadata"]["namespace"] = "secret"
            cluster.add(web, db)
            failing(cluster, lambda: Fault(status=403), "db")
            async with cluster.at_work():
                await until(
                    lambda: "required affinity" in cluster.recorded.reasons.get("uid-web", "")
                )
                reasons.append(cluster.recorded.reasons["uid-web"])
            assert "a pod of another namespace, on which it depends" in reasons[0]
            assert "db" not in reasons[0]

    run(test)


# --- When the process ends


def test_held_bindings_are_not_sent_after_the_end() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            cluster.add(node("n", cpu="64"), needs(app("web"), "db"), app("db"))
            answer = asyncio.Event()
            failing(cluster, lambda: Fault(until=answer), "db")
            async with cluster.at_work():
                await until(lambda: attempts(cluster) == ["db"] and cluster.binder.held == 1)
            assert cluster.binder.held == 0
            answer.set()
            await asyncio.sleep(0)
            assert attempts(cluster) == ["db"]

    run(test)


# --- With volumes


def test_a_pod_whose_volumes_fail_fails_what_rests_on_it_and_frees_its_volumes() -> None:
    async def test() -> None:
        async with clusters(volume_timeout_seconds=0.2) as cluster:
            cluster.add(node("n", cpu="64"), storage_class(), disk("d0", host="n"))
            cluster.add(disk("d1", host="n"), claim("data"), claim("logs"))
            cluster.neglected.add("data")
            cluster.add(app("db", "data"), needs(app("web", "logs"), "db"))
            async with cluster.at_work():
                await until(lambda: "not bound within" in cluster.reason("db"))
                assert attempts(cluster) == []
                cluster.neglected.clear()
                volume = (
                    "d0" if "claimRef" in cluster.server.objects[disk_path("d0")]["spec"] else "d1"
                )
                cluster.bind_later("data", volume)
                await cluster.all_placed("db", "web")

    run(test)


def disk_path(name: str) -> str:
    return f"{volume_cluster.PATHS['PersistentVolume']}/{name}"


def test_volumes_are_bound_only_after_the_anchor() -> None:
    """Otherwise they could keep the pod away from the place of the next anchor."""

    async def test() -> None:
        async with clusters() as cluster:
            cluster.add(node("n", cpu="64"), storage_class(), disk("d0", host="n"))
            cluster.add(claim("logs"), app("db"), needs(app("web", "logs"), "db"))
            answer = asyncio.Event()
            failing(cluster, lambda: Fault(until=answer), "db")
            async with cluster.at_work():
                await until(lambda: attempts(cluster) == ["db"] and cluster.binder.held == 1)
                assert "claimRef" not in cluster.server.objects[disk_path("d0")]["spec"]
                answer.set()
                await cluster.all_placed("web")

    run(test)


def test_the_members_of_a_group_prepare_together_and_are_bound_in_order() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            cluster.add(node("n", cpu="64"), storage_class())
            cluster.add(*(disk(f"d{n}", host="n") for n in range(4)))
            for n in range(4):
                member = pod(f"g-{n}", f"g-{n}", group="g", size=4)
                member["metadata"]["labels"]["app"] = "g"
                cluster.add(claim(f"g-{n}"), needs(member, "g"))
            seen: list[int] = []

            def fault(request: Request) -> Fault:
                if binding_of(request):
                    seen.append(len(cluster.places()))
                return Fault()

            cluster.server.fault = fault
            async with cluster.at_work():
                await cluster.all_placed(*(f"g-{n}" for n in range(4)))
            # The first one alone, then the others.
            assert seen[0] == 0
            assert min(seen[1:]) >= 1

    run(test)


def test_a_circle_gets_all_its_volumes_or_none() -> None:
    async def test() -> None:
        async with clusters(volume_timeout_seconds=0.2) as cluster:
            cluster.add(node("n", cpu="64"), storage_class())
            cluster.add(disk("d0", host="n"), disk("d1", host="n"), claim("a"), claim("b"))
            cluster.neglected.add("b")
            cluster.add(needs(app("a", "a"), "b"), needs(app("b", "b"), "a"))
            async with cluster.at_work():
                await until(
                    lambda: "not bound within" in "".join(cluster.recorded.reasons.values())
                )
                assert attempts(cluster) == []
                cluster.neglected.clear()
                for volume in ("d0", "d1"):
                    spec = cluster.server.objects[disk_path(volume)]["spec"]
                    if spec.get("claimRef", {}).get("name") == "b":
                        cluster.bind_later("b", volume)
                await cluster.all_placed("a", "b")

    run(test)
