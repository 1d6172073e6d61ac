"""afflux queue, group, reservations and history: query, then print.

Exit codes: 0 answered, 1 no answer (unreachable or refused), 2 invalid input, 3 no such group. An
empty list is an answer.
"""

import json
import os
import re
from typing import TypeVar

import msgspec

from afflux import app
from afflux.cli.inspection_arguments import InspectOptions
from afflux.cli.inspection_tables import group_text, list_table
from afflux.cli.safe_output import print_error
from afflux.cycle.inspection_types import (
    MAX_LINES,
    GroupDetails,
    GroupList,
    Inspection,
    InspectionError,
    ListQuery,
)
from afflux.model.errors import InputError

NO_ANSWER = 1
NO_SUCH_GROUP = 3

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")

_EMPTY = {
    "queue": "No groups wait",
    "reservations": "No groups have a reservation",
    "history": "No groups have ended",
}

L = TypeVar("L", bound=GroupList)


def run(options: InspectOptions, program: str = "afflux") -> int:
    """Query, and print the answer."""
    source = _source(options)
    if options.namespace is not None and not _LABEL.fullmatch(options.namespace):
        raise InputError(f"--namespace: {options.namespace!r:.80}, expected a namespace's name")
    try:
        if options.command == "group":
            return _show_group(options, source, program)
        return _show_list(options, source)
    except InspectionError as error:
        print_error(f"{program} {options.command}: {error}")
        return NO_ANSWER


def _source(options: InspectOptions) -> app.InspectionSource:
    """Where to send the query: options override environment variables."""
    service, database = options.service, options.database
    if service and database:
        raise InputError("--service, --database: both are given; expected one of the two")
    if not service and not database:
        service = os.environ.get("AFFLUX_SERVICE")
        database = None if service else os.environ.get("AFFLUX_DATABASE")
    return app.InspectionSource(
        service=service or "",
        database=database or "",
        kubeconfig=options.kubeconfig,
        context=options.context,
        certificate_authority=options.certificate_authority,
        tls_server_name=options.tls_server_name,
        timeout_seconds=options.request_timeout,
    )


# --- One group


def _show_group(options: InspectOptions, source: app.InspectionSource, program: str) -> int:
    name = options.name
    if not name or "/" in name:
        expected = "a group's name; its namespace goes behind --namespace"
        raise InputError(f"NAME: {name!r:.80}, expected {expected}")

    async def ask(inspection: Inspection, default: str) -> tuple[str, GroupDetails | None]:
        namespace = options.namespace or default
        return namespace, await inspection.group(namespace, name)

    namespace, group = app.inspect(source, ask)
    if group is None:
        print_error(
            f"{program} group: there is no group {name!r:.260} in namespace {namespace!r};"
            f" `{program} queue` and `{program} history` list those that there are"
        )
        return NO_SUCH_GROUP
    if options.output in {"json", "yaml"}:
        print(_encoded(group, options.output))
    else:
        print(group_text(group, wide=options.output == "wide"))
    return 0


# --- Lists


def _show_list(options: InspectOptions, source: app.InspectionSource) -> int:
    if options.all_namespaces and options.namespace is not None:
        raise InputError("--all-namespaces, --namespace: both are given; expected one of the two")

    async def ask(inspection: Inspection, default: str) -> tuple[str | None, GroupList]:
        namespace = None if options.all_namespaces else options.namespace or default
        return namespace, await _all_pages(inspection, options, namespace)

    namespace, listed = app.inspect(source, ask)
    if options.output in {"json", "yaml"}:
        print(_encoded(listed, options.output))
        return 0
    if not listed.items:
        where = "in any namespace" if namespace is None else f"in namespace {namespace}"
        print_error(f"{_EMPTY[options.command]} {where}.")
        return 0
    print(
        list_table(
            listed,
            namespaces=options.all_namespaces,
            wide=options.output == "wide",
            headers=not options.no_headers,
        )
    )
    if listed.metadata.continue_token:
        left = listed.metadata.remaining_item_count
        more = "there are more" if left is None else f"{left:,} more"
        print_error(f"{more}; --limit shows so many")
    return 0


async def _all_pages(
    inspection: Inspection, options: InspectOptions, namespace: str | None
) -> GroupList:
    """As many lines as `--limit` allows, page by page."""
    ask = {
        "queue": inspection.queue,
        "reservations": inspection.reservations,
        "history": inspection.history,
    }[options.command]
    max_lines = options.limit
    query = ListQuery(
        namespace=namespace,
        queue=options.queue,
        states=options.state,
        limit=MAX_LINES if max_lines is None else min(max_lines, MAX_LINES),
    )
    pages: list[GroupList] = [await ask(query)]
    found = len(pages[0].items)
    while (token := pages[-1].metadata.continue_token) and (max_lines is None or found < max_lines):
        limit = MAX_LINES if max_lines is None else min(max_lines - found, MAX_LINES)
        next_query = msgspec.structs.replace(query, limit=limit, continue_token=token)
        pages.append(await ask(next_query))
        found += len(pages[-1].items)
    items = tuple(item for page in pages for item in page.items)
    return msgspec.structs.replace(pages[-1], items=items)


# --- For programs


def _encoded(answer: GroupList | GroupDetails, form: str) -> str:
    """JSON or YAML, in ASCII, which is harmless on every terminal."""
    value = msgspec.to_builtins(answer)
    if form == "json":
        return json.dumps(value, indent=2, allow_nan=False)
    import yaml

    return yaml.safe_dump(value, sort_keys=False).rstrip("\n")
