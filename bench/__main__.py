"""Runs every benchmark: `python -m bench [--smoke]`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

for path in sorted(Path(__file__).parent.glob("bench_*.py")):
    done = subprocess.run([sys.executable, "-m", f"bench.{path.stem}", *sys.argv[1:]], check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
