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
    """Starts the testbed, prints how to use it, and stops it at Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m testbed", description=__doc__)
    parser.add_argument("--nodes", type=int, default=10, help="number of machines (10)")
    parser.add_argument("--scheduler", action="store_true", help="also start kube-scheduler")
    parser.add_argument("--build", action="store_true", help="only build the programs")
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
            print("# Ctrl-C stops it", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        return 0
    except (BuildError, StartError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
