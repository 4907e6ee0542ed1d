"""Run every benchmark, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run them room by room; the exit code says whether a bar was missed."""
    status = 0
    for script in sorted(Path(__file__).parent.glob("*/bench_*.py")):
        name = f"{script.parent.name}.{script.stem}"
        print(f"\n## {name}\n", flush=True)
        status |= subprocess.run([sys.executable, "-m", f"tests.benchmarks.{name}"], check=False).returncode
    return status


if __name__ == "__main__":
    sys.exit(main())
