"""The identity of a group. Its name is chosen by users and may be used again by a later group."""

from dataclasses import dataclass

# Identifies a group in dictionaries and in the ledger. Opaque: nothing takes it apart.
GroupKey = str


@dataclass(frozen=True, slots=True)
class GroupId:
    """A group of a namespace. `born` is the uid of its first member.

    A task that names no group is alone in one: its `name` is then the default of seed design 5, and
    people see `alone`, the name of the task, instead. A user may give a group this default name,
    too: the keys differ.
    """

    namespace: str
    name: str
    born: str
    alone: str = ""

    @property
    def key(self) -> GroupKey:
        key = f"{self.namespace}/{self.name}/{self.born}"
        return f"{key}/alone" if self.alone else key

    @property
    def shown(self) -> str:
        """The name that people see, with the namespace."""
        name = self.alone or self.name
        return f"{self.namespace}/{name}" if self.namespace else name


def group_of_one(namespace: str, task_name: str, uid: str) -> GroupId:
    """The group of a task that names none."""
    return GroupId(namespace, f"fluxnetes-group-{namespace}-{task_name}", uid, alone=task_name)
