"""The entries of a job's replicated log (docs/STATE.md)."""

from __future__ import annotations

import msgspec

from job.derived import Derived
from job.plan_book import Revision
from job.settings import Settings
from master.errors import EntryError
from srt.frame_messages import PaneLines, PaneRun, Span

TENTATIVE, FINAL, WITHDRAWN = "tentative", "final", "withdrawn"


class Reg(msgspec.Struct, frozen=True, array_like=True, tag="reg"):
    """Opens the live stream of an agent under a feed, and with `split` its history lane: live begins at `split` then."""

    revision: int
    agent: bytes
    name: str
    start: int
    split: int = -1


class FrameEntry(msgspec.Struct, frozen=True, array_like=True, tag="frame"):
    """All frames of one group commit, merged."""

    spans: tuple[Span, ...]
    panes: tuple[PaneLines, ...]
    runs: tuple[PaneRun, ...]


class PlanText(msgspec.Struct, frozen=True, array_like=True):
    """What a revision was made of, as its user wrote it; the settings are the revision's."""

    name: str = ""
    sql: str = ""
    parameters: dict[str, bool | int | float | str | None] = {}
    made_us: int = 0
    """Wall clock of the leader."""


class PlanEntry(msgspec.Struct, frozen=True, array_like=True, tag="plan"):
    revision: Revision
    text: PlanText = PlanText()
    history: int = 0
    """Of the leader's lineage."""
    failed: int = 0
    """It goes back from this revision, which an agent could not run; 0: a user wanted it."""
    problem: str = ""
    """Why that could not be run."""


class Publish(msgspec.Struct, frozen=True, array_like=True, tag="publish"):
    """What readers see of a window: its rows are the state at this entry."""

    start_us: int
    end_us: int
    count: int
    """The n-th time that the window is published, from 1."""
    status: str
    agents: int
    """On the roster."""
    missing: tuple[str, ...] = ()
    """Names of the agents that have not reached its end, at most a thousand of them."""
    made_us: int = 0
    """Wall clock of the leader."""


class DerivedEntry(msgspec.Struct, frozen=True, array_like=True, tag="derived"):
    """A revision of a job whose windows are computed elsewhere: it has no plan."""

    number: int
    derived: Derived
    settings: Settings
    text: PlanText
    history: int = 0
    """Of the leader's lineage."""


class Ingest(msgspec.Struct, frozen=True, array_like=True, tag="ingest"):
    """A final window that was computed elsewhere: readers see it from here on."""

    start_us: int
    end_us: int
    edition: int
    """The leader has looked which one was the last: it is in the store of results, not in the state."""
    revision: int
    """Of the plan that computed it; its columns are that one's."""
    lines: int
    rows: int
    packed: bytes
    """As ResultRecord has them."""
    digest: bytes
    """Of columns and rows."""
    made_us: int = 0
    """Wall clock of the leader."""


class Forget(msgspec.Struct, frozen=True, array_like=True, tag="forget"):
    """Takes an agent off the roster until a frame of it is committed."""

    agent: bytes


class Delivered(msgspec.Struct, frozen=True, array_like=True, tag="delivered"):
    """The job's webhook has got the results up to that index."""

    upto: int


class Drain(msgspec.Struct, frozen=True, array_like=True, tag="drain"):
    """Agents read their sources to the end as of now; then all windows become final."""

    made_us: int = 0


class Stop(msgspec.Struct, frozen=True, array_like=True, tag="stop"):
    """Nothing is taken any more: what is published stays as it is."""

    made_us: int = 0


class Remove(msgspec.Struct, frozen=True, array_like=True, tag="remove"):
    """Whoever applies this lets go of everything that there is of the job."""

    made_us: int = 0


class Era(msgspec.Struct, frozen=True, array_like=True, tag="era"):
    """The first entry of a leader whose lineage is another than that of the leader before: committed entries may be gone,
    with what readers saw. Indexes and editions go on beyond all that may have been."""

    history: int
    """Of the lineage."""


class Part(msgspec.Struct, frozen=True, array_like=True, tag="part"):
    """A piece of an entry that is too large for one position of the log; the state changes with the last. Whatever else
    comes between them ends them: their leader has lost its lead."""

    number: int
    last: bool
    data: bytes


Entry = (
    Reg
    | FrameEntry
    | PlanEntry
    | DerivedEntry
    | Publish
    | Ingest
    | Forget
    | Delivered
    | Drain
    | Stop
    | Remove
    | Era
    | Part
)
PART_BYTES = 1 << 20
"""A longer entry is cut."""
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Entry] = msgspec.msgpack.Decoder(Entry)


def encode_entry(entry: Entry) -> bytes:
    return _encoder.encode(entry)


def encode_entries(entry: Entry) -> list[bytes]:
    """An entry as positions of the log: one, or its parts."""
    data = encode_entry(entry)
    if len(data) <= PART_BYTES:
        return [data]
    cuts = range(0, len(data), PART_BYTES)
    return [
        encode_entry(Part(number, at + PART_BYTES >= len(data), data[at : at + PART_BYTES]))
        for number, at in enumerate(cuts)
    ]


def decode_entry(data: bytes) -> Entry:
    """Raises EntryError."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as problem:
        raise EntryError(f"an entry of {len(data)} bytes: {problem}") from problem
