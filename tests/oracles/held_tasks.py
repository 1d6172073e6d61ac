"""All tasks that a register holds back. The register itself only tells what it found last."""

from afflux.groups.register import GroupRegister, HeldBackTask


def held_tasks(register: GroupRegister) -> list[HeldBackTask]:
    return [
        (member.said.task, member.hold)
        for group in register._groups.values()
        for member in group.members.values()
        if member.hold is not None and member.said is not None
    ]
