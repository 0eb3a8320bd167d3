"""What an entry of a job's log costs while many windows are open: it is applied, then looked at for what to publish."""

from __future__ import annotations

import argparse
import time

from cbt.budget import Budget
from cbt.options import Options
from job.settings import Settings
from master.committed import Committed
from master.entries import FrameEntry, PlanEntry, Reg, encode_entry
from master.finality import Finality, FinalityOptions
from srt.automaton import Instant
from tests.frame_data import AGENTS, frame, stream
from tests.plans import SECOND_US, plan

SLIDE_S = 10


def cost(windows: int, entries: int, final: bool) -> float:
    """Seconds per entry. The windows are final and open for late lines; or one of two agents is behind them all."""
    state = Committed(Budget(), Options.tiny())
    finality = Finality(state, FinalityOptions(grace_s=0.0, publish_max=256))
    long_us = 10 * windows * SLIDE_S * SECOND_US
    settings = Settings(delay_us=0, lateness_us=long_us, deadline_us=long_us)
    done = [0, 0]
    now = Instant(1.0, SECOND_US)

    def apply(entry: object) -> None:
        state.apply(state.index + 1, encode_entry(entry))  # type: ignore[arg-type]
        finality.applied(now.s)

    def send(agent: int, panes: dict[int, dict[str, int]], mark_s: int) -> None:
        ends = (done[agent], done[agent] + 1)
        whole = frame(0, {stream(agent): ends}, panes, watermark_us=mark_s * SECOND_US)
        done[agent] += 1
        apply(FrameEntry(whole.spans, whole.panes, whole.runs))

    apply(PlanEntry(state.book.revised(0, plan("window(time, '10 seconds')", "path"), settings)))
    for agent in (0, 1):
        apply(Reg(1, AGENTS[agent], f"web{agent}", 0))
    finality.lead(0.0)
    for first in range(0, windows, 1000):
        panes = {at * SLIDE_S * SECOND_US: {"/a": 1} for at in range(first, min(first + 1000, windows))}
        send(0, panes, (first + len(panes)) * SLIDE_S)
    if final:
        send(1, {}, windows * SLIDE_S)
    while publish := finality.due(now):
        for entry in publish:
            apply(entry)
        finality.settled(())
    began = time.process_time()
    for number in range(entries):
        end_s = (windows + number) * SLIDE_S
        send(0, {end_s * SECOND_US: {"/a": 1}}, end_s)
        if final:
            send(1, {}, end_s)
        for entry in finality.due(now):
            apply(entry)
        finality.settled(())
    return (time.process_time() - began) / entries / (2 + final)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.bench_finality")
    parser.add_argument("--smoke", action="store_true", help="small and quick")
    smoke = parser.parse_args().smoke
    for windows in (10, 100) if smoke else (100, 1000, 10_000):
        for final in (True, False):
            what = "final, open for late lines" if final else "behind which one agent is"
            spent = cost(windows, 20 if smoke else 200, final)
            print(f"{windows:7,} windows {what}: {spent * 1e6:8.0f} us per entry")


if __name__ == "__main__":
    main()
