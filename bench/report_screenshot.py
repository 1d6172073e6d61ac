"""python -m bench.report_screenshot PAGE PICTURE: a screenshot of a report page for the README."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WIDTH, HEIGHT = 1280, 1097
MAX_BYTES = 300_000
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def main() -> int:
    """Takes the screenshot; returns 1 if there is no browser or no picture."""
    page, picture = (Path(argument).resolve() for argument in sys.argv[1:3])
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print("no Chromium on the PATH; install it: apt-get install chromium", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as directory:
        command = [browser, *FLAGS, f"--user-data-dir={directory}/profile"]
        if os.geteuid() == 0:
            command.append("--no-sandbox")  # Chromium refuses to run as root in its sandbox
        shot = Path(directory) / "picture.png"
        command += [f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={shot}", page.as_uri()]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
        if done.returncode or not shot.exists():
            print(f"{browser} failed:\n{done.stderr}", file=sys.stderr)
            return 1
        content = shot.read_bytes()
    if len(content) > MAX_BYTES:
        print(f"the picture has {len(content):,} bytes; expected {MAX_BYTES:,}", file=sys.stderr)
        return 1
    picture.write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
