"""Jobs that are to be made at a node, while others are asked whether they are there already. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from master.group_messages import Seek, Sought
from master.job_events import Overload
from master.requests import Answer, Ask, Refusal
from srt.automaton import NEVER, Ref, Send


@dataclass
class _Founding:
    """One of them."""

    asks: list[Ask]
    silent: set[bytes]
    """Who has not answered."""
    due_s: float


class Foundings:
    """Of one node, by key."""

    def __init__(self) -> None:
        self._by_key: dict[bytes, _Founding] = {}
        self.overload = Overload(0.0)
        """Whether this node may make jobs."""

    @property
    def is_late(self) -> bool:
        return self.overload.late_s > 0

    @property
    def is_overloaded(self) -> bool:
        return self.is_late or self.overload.use > 0

    @property
    def due_s(self) -> float:
        """When the first has waited long enough. O(foundings)."""
        return min((one.due_s for one in self._by_key.values()), default=NEVER)

    def __contains__(self, key: bytes) -> bool:
        return key in self._by_key

    def begin(self, ask: Ask, near: Sequence[Ref], due_s: float) -> list[Send]:
        """Asks those who are near; it is due at once where there is nobody."""
        silent = {ref.id for ref in near}
        self._by_key[ask.key] = _Founding([ask], silent, due_s if near else -NEVER)
        return [Send(ref, Seek(ask.key)) for ref in near]

    def join(self, ask: Ask) -> None:
        """Somebody else asks for the same."""
        self._by_key[ask.key].asks.append(ask)

    def refused(self, ask: Ask) -> list[Answer]:
        """Why no job is made here now; empty: it may be."""
        late_s, use = self.overload
        if late_s:
            return [Answer(ask.token, _overload("this node", f"is {late_s:.1f} s late with its work"))]
        return [Answer(ask.token, _overload("this node", f"works {use:.0%} of the time"))] if use else []

    def heard(self, sender: Ref, message: Sought) -> list[Answer]:
        """An answer to `Seek`. Who asked is refused if another node leads the job, or one of those that may be in its group
        has too much to do."""
        founding = self._by_key.get(message.group)
        if founding is None:
            return []
        refusal = None
        if message.leader is not None:
            refusal = Refusal("elsewhere", "another node leads the job", master=message.leader)
        elif message.overloaded:
            refusal = _overload(sender.address, "has too much to do")
        if refusal is not None:
            return [Answer(ask.token, refusal) for ask in self.end(message.group)]
        founding.silent.discard(sender.id)
        if not founding.silent:
            founding.due_s = -NEVER
        return []

    def due(self, now_s: float) -> list[bytes]:
        """Those that nobody has to be waited for any more."""
        return [key for key, one in self._by_key.items() if one.due_s <= now_s]

    def end(self, key: bytes) -> list[Ask]:
        """The asks. Raises KeyError."""
        return self._by_key.pop(key).asks


def _overload(who: str, what: str) -> Refusal:
    return Refusal("overloaded", f"{who} {what}, and the jobs that run come first; submit it again later")
