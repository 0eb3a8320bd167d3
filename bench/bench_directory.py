"""The directory of a fleet in the simulator: how soon a change is known, and what idling costs."""

from __future__ import annotations

import argparse
import time

from tests.sim.directory_figures import Spread, take_directory_figures


def spread_text(spread: Spread) -> str:
    return (
        f"{spread.most_s:.2f} ({spread.most_worst_s:.2f}) | {spread.all_s:.2f} ({spread.all_worst_s:.2f}) | "
        f"{spread.messages:.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.bench_directory")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes: does it run?")
    parser.add_argument("--nodes", type=int, default=1280)
    parser.add_argument("--jobs", type=int, default=1000)
    options = parser.parse_args()
    cpu = time.process_time()
    figures = take_directory_figures(*((30, 20) if options.smoke else (options.nodes, options.jobs)))
    print("a change: | 99 % know it, s: median (worst) | all | messages per node")
    print(f"no loss | {spread_text(figures.quiet)}")
    print(f"5 % loss | {spread_text(figures.lossy)}")
    print("idle, per node and second: | messages | bytes")
    print(f"nodes tell of themselves | {figures.idle_messages:.1f} | {figures.idle_bytes:.0f}")
    print(f"nobody tells anything | {figures.bare_messages:.2f} | {figures.bare_bytes:.0f}")
    print(f"a newcomer has the whole map after | {figures.newcomer_s:.2f} s")
    print(f"cpu s | {time.process_time() - cpu:.0f}")


if __name__ == "__main__":
    main()
