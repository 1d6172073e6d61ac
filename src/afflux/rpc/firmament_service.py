"""FirmamentScheduler: the calls of Firmament's clients on the cluster that they share.

What a client can get wrong in normal operation is an answer with a reply type, as in Firmament.
Here: which reply each call gets. Not here: the network.
"""

from collections.abc import Awaitable, Callable
from time import time

from afflux.groups.states import EndReason
from afflux.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, resources
from afflux.rpc.machine_messages import described_machines
from afflux.rpc.message_errors import LimitError, MessageError, checked_amount, checked_name
from afflux.rpc.proto.firmament import resources_pb2 as machines
from afflux.rpc.proto.firmament import scheduler_pb2 as pb
from afflux.rpc.proto.firmament import statistics_pb2 as statistics
from afflux.rpc.proto.firmament import tasks_pb2 as tasks
from afflux.rpc.samples import Samples
from afflux.rpc.service_cluster import ServiceCluster
from afflux.rpc.task_messages import described_task, updated

# Of each task and machine, and of so many of them.
DEFAULT_SAMPLES = 10
_MAX_SAMPLED = 200_000
# Descriptions and samples are kept: a larger one is refused.
MAX_TASK_BYTES = 1 << 18
_MAX_SAMPLE_BYTES = 1 << 14


class FirmamentService:
    """Each method answers one call; a MessageError or LimitError refuses it.

    `run_pass` runs one scheduling pass. `samples` is how many samples of each task and machine are
    kept.
    """

    def __init__(
        self,
        cluster: ServiceCluster,
        run_pass: Callable[[], Awaitable[None]],
        samples: int = DEFAULT_SAMPLES,
    ) -> None:
        self._cluster = cluster
        self._run_pass = run_pass
        self.task_samples = Samples(samples, _MAX_SAMPLED)
        self.machine_samples = Samples(samples, _MAX_SAMPLED)

    # --- The schedule

    async def schedule(self, _: pb.ScheduleRequest) -> pb.SchedulingDeltas:
        await self._run_pass()
        return pb.SchedulingDeltas(
            deltas=[
                pb.SchedulingDelta(
                    task_id=each.task_uid, resource_id=each.resource, type=_CHANGES[each.kind]
                )
                for each in self._cluster.take_untold()
            ],
            unscheduled_tasks=self._cluster.waiting_uids(),
        )

    # --- Tasks

    async def task_submitted(self, message: pb.TaskDescription) -> pb.TaskSubmittedResponse:
        _check_size(message.ByteSize(), "task_descriptor", MAX_TASK_BYTES)
        described = described_task(message, time())
        if message.task_descriptor.state != tasks.TaskDescriptor.CREATED:
            return pb.TaskSubmittedResponse(type=pb.TASK_STATE_NOT_CREATED)
        self._cluster.submit(described, message.SerializeToString())
        return pb.TaskSubmittedResponse(type=pb.TASK_SUBMITTED_OK)

    async def task_updated(self, message: pb.TaskDescription) -> pb.TaskUpdatedResponse:
        _check_size(message.ByteSize(), "task_descriptor", MAX_TASK_BYTES)
        if not message.HasField("task_descriptor"):
            raise MessageError("task_descriptor: missing, expected a task")
        known = self._cluster.newest(message.task_descriptor.uid)
        if known is None:
            return pb.TaskUpdatedResponse(type=pb.TASK_NOT_FOUND)
        merged = updated(pb.TaskDescription.FromString(known.message), message)
        described = described_task(merged, time())
        self._cluster.update(known, described, merged.SerializeToString())
        return pb.TaskUpdatedResponse(type=pb.TASK_UPDATED_OK)

    async def task_completed(self, message: pb.TaskUID) -> pb.TaskCompletedResponse:
        known = self._cluster.end(message.task_uid, "succeeded")
        return pb.TaskCompletedResponse(type=pb.TASK_COMPLETED_OK if known else pb.TASK_NOT_FOUND)

    async def task_failed(self, message: pb.TaskUID) -> pb.TaskFailedResponse:
        known = self._cluster.end(message.task_uid, _FAILED)
        return pb.TaskFailedResponse(type=pb.TASK_FAILED_OK if known else pb.TASK_NOT_FOUND)

    async def task_removed(self, message: pb.TaskUID) -> pb.TaskRemovedResponse:
        known = self._cluster.remove(message.task_uid)
        if not self._cluster.is_known(message.task_uid):
            self.task_samples.discard(str(message.task_uid))
        return pb.TaskRemovedResponse(type=pb.TASK_REMOVED_OK if known else pb.TASK_NOT_FOUND)

    # --- Machines

    async def node_added(
        self, message: machines.ResourceTopologyNodeDescriptor
    ) -> pb.NodeAddedResponse:
        is_new = self._cluster.add_machines(described_machines(message))
        return pb.NodeAddedResponse(type=pb.NODE_ADDED_OK if is_new else pb.NODE_ALREADY_EXISTS)

    async def node_updated(
        self, message: machines.ResourceTopologyNodeDescriptor
    ) -> pb.NodeUpdatedResponse:
        known = self._cluster.update_machines(described_machines(message))
        return pb.NodeUpdatedResponse(type=pb.NODE_UPDATED_OK if known else pb.NODE_NOT_FOUND)

    async def node_failed(self, message: pb.ResourceUID) -> pb.NodeFailedResponse:
        known = self._cluster.remove_machine(message.resource_uid)
        return pb.NodeFailedResponse(type=pb.NODE_FAILED_OK if known else pb.NODE_NOT_FOUND)

    async def node_removed(self, message: pb.ResourceUID) -> pb.NodeRemovedResponse:
        known = self._cluster.remove_machine(message.resource_uid)
        self.machine_samples.discard(message.resource_uid)
        return pb.NodeRemovedResponse(type=pb.NODE_REMOVED_OK if known else pb.NODE_NOT_FOUND)

    # --- Statistics

    async def add_task_stats(self, message: statistics.TaskStats) -> pb.TaskStatsResponse:
        if not self._cluster.is_known(message.task_id):
            return pb.TaskStatsResponse(type=pb.TASK_NOT_FOUND)
        _check_size(message.ByteSize(), "task_id: the sample", _MAX_SAMPLE_BYTES)
        self.task_samples.add(str(message.task_id), message.SerializeToString())
        return pb.TaskStatsResponse()

    async def add_node_stats(self, message: statistics.ResourceStats) -> pb.ResourceStatsResponse:
        machine = self._cluster.machine_with(message.resource_id)
        if machine is None:
            return pb.ResourceStatsResponse(type=pb.NODE_NOT_FOUND)
        _check_size(message.ByteSize(), "resource_id: the sample", _MAX_SAMPLE_BYTES)
        self.machine_samples.add(machine.described.uuid, message.SerializeToString())
        return pb.ResourceStatsResponse()

    # --- The rest

    async def check(self, message: pb.HealthCheckRequest) -> pb.HealthCheckResponse:
        status = pb.UNKNOWN if message.grpc_service else pb.SERVING
        return pb.HealthCheckResponse(status=status)

    async def add_task_info(self, message: pb.TaskInfo) -> pb.TaskInfoResponse:
        name = checked_name(message.task_name, "task_name")
        if message.type == pb.TASKINFO_ADD:
            known = self._cluster.add_foreign(name, message.resource_id, _used(message))
            return pb.TaskInfoResponse(
                type=pb.TASKINFO_SUBMITTED_OK if known else pb.TASKINFO_SUBMIT_FAILED
            )
        if message.type == pb.TASKINFO_REMOVE:
            known = self._cluster.remove_foreign(name)
            return pb.TaskInfoResponse(
                type=pb.TASKINFO_REMOVED_OK if known else pb.TASKINFO_REMOVE_FAILED
            )
        raise MessageError(f"type: {message.type}, expected TASKINFO_ADD or TASKINFO_REMOVE")


_FAILED: EndReason = "failed"
_CHANGES = {"place": pb.SchedulingDelta.PLACE, "preempt": pb.SchedulingDelta.PREEMPT}


def _used(message: pb.TaskInfo) -> Resources:
    fields = (
        ("cpu_utilization", CPU),
        ("mem_utilization", MEMORY),
        ("ephemeral_storage_utilization", EPHEMERAL_STORAGE),
    )
    used = {name: int(checked_amount(getattr(message, field), field)) for field, name in fields}
    return resources({**used, PODS: 1})


def _check_size(found: int, what: str, most: int) -> None:
    if found > most:
        raise LimitError(f"{what}: {found} bytes, expected at most {most}")
