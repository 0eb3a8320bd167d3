"""Whether this machine has what the configuration asks for: a place for data, memory, processors, a clock.

`root` is the root of the file system; tests have one of their own.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from elfstream.check.finding import Finding, error, warning
from elfstream.config.model import NodeConfig
from elfstream.config.values import size_text

OVERHEAD_BYTES = 180 << 20
"""The interpreter, its imports and what the allocator keeps: 30 to 50 MiB for a query (docs/BENCH.md, 157 to 178 MiB under
a cap of 128), and the network on top."""
FREE_LEAST_BYTES = 256 << 20
RELEASED_S = 1_735_689_600
"""2025-01-01: no clock that is right shows less."""
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse.glusterfs", "ceph", "lustre", "afs"}
_VOLATILE = {"tmpfs", "ramfs"}
_TIME_ERROR = 5
_TIMEX_BYTES = 512
"""struct timex has 208 bytes on 64-bit Linux; its first field, modes, is 0 for a question."""


def check_data_dir(config: NodeConfig, root: Path = Path("/")) -> Iterator[Finding]:
    """Whether `data_dir` is there, or can be made, and written to."""
    folder, key = config.data_dir, ("node", "data_dir")
    make = f"Make it for the user of the service:  install -d -o elfstream -m 750 {folder}"
    there = folder
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    if not os.path.isdir(there):
        yield error(key, f"{there} is no folder", "Name another data_dir.")
        return
    if not os.access(there, os.W_OK | os.X_OK):
        missing = "" if there == folder else f"there is no folder {folder}, and "
        what = f"{missing}{there} may not be written"
        yield error(key, f"{what} by the user {os.geteuid()}", make)
        return
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as failed:
        yield error(key, f"nothing can be written to {there}: {(failed.strerror or str(failed)).lower()}", make)
        return
    yield from _disk(config, there, root)


def _disk(config: NodeConfig, there: str, root: Path) -> Iterator[Finding]:
    found = os.statvfs(there)
    free = found.f_bavail * found.f_frsize
    spill = config.limits.spill_max
    if free < FREE_LEAST_BYTES:
        yield error(("node", "data_dir"), f"only {free >> 20} MiB are free at {there}", "Make room, or name another disk.")
    elif free < spill:
        yield warning(
            ("limits", "spill_max"),
            f"spill_max is {size_text(spill)}, but only {free >> 20} MiB are free at {there}",
            "Lower it, or name a larger disk.",
        )
    kind = filesystem(there, root)
    if kind in _NETWORK:
        advice = "Name a local disk: locks and syncs are not safe there."
        yield warning(("node", "data_dir"), f"{there} is on a network file system ({kind})", advice)
    elif kind in _VOLATILE:
        message = f"{there} is in memory ({kind}) and is lost when the machine stops"
        yield warning(("node", "data_dir"), message, "Name a folder on a disk.")


def filesystem(path: str, root: Path = Path("/")) -> str | None:
    """The type of the file system that `path` is on; None where nobody tells."""
    try:
        lines = (root / "proc/self/mountinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    real = os.path.realpath(path)
    best, kind = -1, None
    for line in lines:
        mounted, _, rest = line.partition(" - ")
        fields, types = mounted.split(), rest.split()
        if len(fields) < 5 or not types:
            continue
        point = fields[4].replace("\\040", " ")
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:
            best, kind = len(point), types[0]
    return kind


def check_memory(config: NodeConfig, root: Path = Path("/")) -> Iterator[Finding]:
    """Whether `memory_max` fits into the machine, and into the control group this runs in."""
    known = ((machine_bytes(root), "this machine has"), (group_bytes(root), "MemoryMax of the service allows"))
    limits = [(limit, who) for limit, who in known if limit is not None]
    if not limits:
        return
    most, who = min(limits)
    wanted = config.limits.memory_max
    shown = f"memory_max is {size_text(wanted)}, and {who} {most >> 20} MiB"
    advice = f"About {OVERHEAD_BYTES >> 20} MiB come on top of memory_max; lower it, or give the node more."
    if wanted + OVERHEAD_BYTES > most:
        yield error(("limits", "memory_max"), shown, advice)
    elif wanted > most * 3 // 4:
        yield warning(("limits", "memory_max"), shown, advice)


def machine_bytes(root: Path = Path("/")) -> int | None:
    """Memory of the machine."""
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        return None
    return None


def group_bytes(root: Path = Path("/")) -> int | None:
    """The least memory.max of the control groups (version 2) this process is in; None where there is no limit."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    group = next((line[3:] for line in lines if line.startswith("0::/")), None)
    if group is None:
        return None
    least: int | None = None
    mounted = root / "sys/fs/cgroup"
    folder = mounted / group.lstrip("/")
    for one in (folder, *folder.parents):
        if not one.is_relative_to(mounted):
            break
        try:
            limit = int((one / "memory.max").read_text())
        except (OSError, ValueError):  # the root group has none; "max" is none
            continue
        least = limit if least is None else min(least, limit)
    return least


def check_processors(config: NodeConfig) -> Iterator[Finding]:
    cores, wanted = len(os.sched_getaffinity(0)), config.limits.cpu_max_cores
    if wanted is not None and wanted > cores:
        message = f"cpu_max_cores is {wanted:g}, and this process may use {cores}"
        yield warning(("limits", "cpu_max_cores"), message, "Lower it.")


def check_clock(now_s: float, synchronised: bool | None) -> Iterator[Finding]:
    """Windows close by the clock, and lines far ahead of it are rejected."""
    if now_s < RELEASED_S:
        message = f"the clock of this machine is wrong: {int(now_s)} s since 1970"
        yield error((), message, "Set it:  timedatectl set-ntp true")
    elif synchronised is False:
        yield warning((), "the clock of this machine is not synchronised", "Start a time service:  timedatectl set-ntp true")


def clock_is_synchronised() -> bool | None:
    """What the kernel says; None where it may not be asked."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        state = library.adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _TIME_ERROR
