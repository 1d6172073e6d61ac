"""`python -m testbed`: a control plane to play with, until Ctrl-C."""

import argparse
import signal
import sys
import time

from testbed.building import build, build_helm
from testbed.control_plane import ControlPlane
from testbed.processes import StartError
from testbed.toolchain import BuildError


def main() -> int:
    """Start, say how to use it, wait, stop."""
    parser = argparse.ArgumentParser(prog="python -m testbed", description=__doc__)
    parser.add_argument("--nodes", type=int, default=10, help="machines to begin with (10)")
    parser.add_argument("--scheduler", action="store_true", help="with kube-scheduler, the peer")
    parser.add_argument("--build", action="store_true", help="build everything, and no more")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        binaries, helm = build(), build_helm()
        if arguments.build:
            return 0
        began = time.monotonic()
        with ControlPlane(binaries=binaries) as plane:
            plane.create_nodes(arguments.nodes)
            if arguments.scheduler:
                plane.start_scheduler()
            print(f"# ready after {time.monotonic() - began:.1f} s; logs in {plane.log('').parent}")
            print(f"export KUBECONFIG={plane.kubeconfig}")
            print(f"alias kubectl={plane.binaries['kubectl']}")
            print(f"alias helm={helm}")
            print("# Ctrl-C ends it", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        return 0
    except (BuildError, StartError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
