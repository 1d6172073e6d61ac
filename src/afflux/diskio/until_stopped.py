"""Runs a process of this package until SIGTERM or SIGINT, and connects it to its cluster."""

import asyncio
import logging
import signal
from collections.abc import Coroutine

from afflux.kube.api.client_config import ClientConfig
from afflux.kube.api.in_cluster import in_cluster
from afflux.kube.api.kubeconfig import read_kubeconfig

_log = logging.getLogger(__name__)


async def run_until_stopped(work: Coroutine[None, None, None]) -> None:
    """Cancels the work at the first signal; what it raises by itself is raised here."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    task = asyncio.create_task(work)
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not task.done():
        _log.info("stopping")
        task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        if not stop.is_set():
            raise


def connection(kubeconfig: str | None, context: str | None) -> ClientConfig:
    """In a pod that of its service account, elsewhere that of a kubeconfig."""
    found = in_cluster() if kubeconfig is None and context is None else None
    return found or read_kubeconfig(kubeconfig, context)
