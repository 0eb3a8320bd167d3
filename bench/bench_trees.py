"""A fleet with many jobs in the simulator: virtual times of joining, repair, multicast; spread of the masters."""

from __future__ import annotations

import argparse
import time
from dataclasses import fields

from tests.sim.fleet_figures import take_figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.bench_trees")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes: does it run?")
    parser.add_argument("--nodes", type=int, default=1280)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--agents-per-job", type=int, default=8)
    options = parser.parse_args()
    cpu = time.process_time()
    sizes = (40, 12, 5) if options.smoke else (options.nodes, options.jobs, options.agents_per_job)
    figures = take_figures(*sizes)
    for field in fields(figures):
        value = getattr(figures, field.name)
        print(f"{field.name} | {value:.3f}" if isinstance(value, float) else f"{field.name} | {value}")
    print(f"cpu s | {time.process_time() - cpu:.0f}")


if __name__ == "__main__":
    main()
