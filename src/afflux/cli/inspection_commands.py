"""afflux queue, group, reservations and history: query, then print. An empty list is an answer."""

import os
import re
from typing import TypeVar

import msgspec

from afflux import app
from afflux.cli.data_output import print_data
from afflux.cli.exit_codes import ExitCode
from afflux.cli.inspection_arguments import InspectOptions
from afflux.cli.inspection_tables import group_text, list_table
from afflux.cli.output_option import is_data
from afflux.cli.safe_output import print_error
from afflux.cycle.inspection_types import (
    MAX_LINES,
    GroupDetails,
    GroupList,
    Inspection,
    InspectionError,
    ListQuery,
    is_name,
)
from afflux.model.errors import InputError

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")

_EMPTY = {
    "queue": "No groups wait",
    "reservations": "No groups have a reservation",
    "history": "No groups have ended",
}

L = TypeVar("L", bound=GroupList)


def run(options: InspectOptions, program: str = "afflux") -> ExitCode:
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
        return ExitCode.NO_ANSWER


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


def _show_group(options: InspectOptions, source: app.InspectionSource, program: str) -> ExitCode:
    name = options.name
    if not is_name(name):
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
        return ExitCode.NO
    if is_data(options.output):
        print_data(msgspec.to_builtins(group), options.output)
    else:
        print(group_text(group, wide=options.output == "wide"))
    return ExitCode.DONE


# --- Lists


def _show_list(options: InspectOptions, source: app.InspectionSource) -> ExitCode:
    if options.all_namespaces and options.namespace is not None:
        raise InputError("--all-namespaces, --namespace: both are given; expected one of the two")
    if options.queue and not is_name(options.queue):
        raise InputError(f"--queue: {options.queue!r:.80}, expected a queue's name")

    async def ask(inspection: Inspection, default: str) -> tuple[str | None, GroupList]:
        namespace = None if options.all_namespaces else options.namespace or default
        return namespace, await _all_pages(inspection, options, namespace)

    namespace, listed = app.inspect(source, ask)
    if is_data(options.output):
        print_data(msgspec.to_builtins(listed), options.output)
        return ExitCode.DONE
    if not listed.items:
        where = "in any namespace" if namespace is None else f"in namespace {namespace}"
        print_error(f"{_EMPTY[options.command]} {where}.")
        return ExitCode.DONE
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
    return ExitCode.DONE


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
