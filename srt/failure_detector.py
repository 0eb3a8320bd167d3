"""Who does not answer, who is dead, and who was lost: what the ring knows about silence."""

from __future__ import annotations

import random
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from srt.automaton import ANY_BOOT, NEVER, Ref
from srt.options import RingOptions


@dataclass(slots=True)
class Question:
    """Something a node has to answer, asked again until it does or is dead."""

    ref: Ref
    message: Any
    tries_left: int
    due: float
    tell: bool
    """Whether the others are told should it turn out dead."""
    joins: bool
    """Whether it becomes a member of the leaf set once it answers."""
    missed: int = 0


class FailureDetector:
    """Questions under way, by the number of the node asked; anything heard from the node answers them.

    Bounded: one question per node asked, which the ring asks of members, candidates and one table entry at a time.
    """

    def __init__(self, options: RingOptions) -> None:
        self._patience_s = options.lease_s / options.tries
        self._tries = options.tries
        self.questions: dict[int, Question] = {}
        self.next_due = NEVER

    def ask(
        self, ref: Ref, number: int, message: Any, now_s: float, *, tell: bool, joins: bool = False, tries: int = 0
    ) -> bool:
        """Notes a question that is sent now. False when the node is being asked already."""
        held = self.questions.get(number)
        if held is not None and held.ref.boot >= ref.boot:
            held.tell |= tell
            return False
        due = now_s + self._patience_s
        self.questions[number] = Question(ref, message, (tries or self._tries) - 1, due, tell, joins)
        self.next_due = min(self.next_due, due)
        return True

    def heard(self, ref: Ref, number: int) -> bool:
        """A node spoke. True if that makes it a member of the leaf set."""
        held = self.questions.get(number)
        if held is None or ref.boot < held.ref.boot:
            return False
        self.forget(number)
        return held.joins

    def forget(self, number: int) -> None:
        if self.questions.pop(number, None) is not None and not self.questions:
            self.next_due = NEVER

    def silent(self, number: int) -> bool:
        """Whether the node owes an answer for longer than one question."""
        held = self.questions.get(number)
        return held is not None and held.missed > 0

    def candidates(self, silent: bool = True) -> list[int]:
        """Nodes that may become members once they answer."""
        return [n for n, asked in self.questions.items() if asked.joins and (silent or not asked.missed)]

    def postpone(self, now_s: float) -> None:
        """This node itself was stopped for a while: all get the whole time again."""
        for question in self.questions.values():
            question.due = now_s + self._patience_s
            question.tries_left = max(question.tries_left, self._tries - 1)
        self.next_due = now_s + self._patience_s if self.questions else NEVER

    def overdue(self, now_s: float) -> tuple[list[Question], list[Question]]:
        """(to be asked again, dead); the dead are forgotten."""
        again, dead = [], []
        if now_s >= self.next_due:
            for number, question in list(self.questions.items()):
                if question.due > now_s:
                    continue
                question.missed += 1
                if question.tries_left:
                    question.tries_left -= 1
                    question.due = now_s + self._patience_s
                    again.append(question)
                else:
                    del self.questions[number]
                    dead.append(question)
            self.next_due = min((question.due for question in self.questions.values()), default=NEVER)
        return again, dead


class Quarantine:
    """Boots found dead, or gone, so that gossip does not bring them back; the oldest are forgotten."""

    def __init__(self, size: int, seconds: float) -> None:
        self._size = size
        self._seconds = seconds
        self._until: OrderedDict[int, tuple[int, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._until)

    def add(self, number: int, boot: int, now_s: float) -> None:
        self._until.pop(number, None)
        self._until[number] = (boot, now_s + self._seconds)
        if len(self._until) > self._size:
            self._until.popitem(last=False)

    def holds(self, number: int, boot: int, now_s: float) -> bool:
        held = self._until.get(number)
        if held is None:
            return False
        if now_s >= held[1]:
            del self._until[number]
            return False
        return boot <= held[0]

    def lift(self, number: int) -> None:
        self._until.pop(number, None)


class Lost:
    """Addresses of nodes that were found dead: a partition looks the same, and somebody has to try when it is over."""

    def __init__(self, size: int, seeds: tuple[str, ...]) -> None:
        self._size = size
        self._seeds = seeds
        self._refs: OrderedDict[int, Ref] = OrderedDict()

    def __len__(self) -> int:
        return len(self._refs)

    def add(self, ref: Ref, number: int) -> None:
        self._refs.pop(number, None)
        self._refs[number] = ref
        if len(self._refs) > self._size:
            self._refs.popitem(last=False)

    def found(self, number: int) -> bool:
        return self._refs.pop(number, None) is not None

    def choose(self, rng: random.Random, seed_chance: float) -> Ref | None:
        """One to try now."""
        if self._refs and rng.random() < 0.8:
            ref = rng.choice(list(self._refs.values()))
            return Ref(ref.id, ref.address, ANY_BOOT)
        if self._seeds and rng.random() < seed_chance:
            return Ref(bytes(16), rng.choice(self._seeds), ANY_BOOT)
        return None
