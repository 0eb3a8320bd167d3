"""A network of the simulator: latency, loss, duplication, reordering, partitions, one-way links."""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass
class Network:
    """Says when a message arrives. Times in seconds, chances between 0 and 1; all may be changed while it runs."""

    latency_s: float = 0.0005
    jitter_s: float = 0.0005
    loss: float = 0.0
    duplication: float = 0.0
    straying: float = 0.0
    """The chance that a message is late by up to `stray_s` and overtaken by everything."""
    stray_s: float = 5.0
    cut: set[tuple[str, str]] = field(default_factory=set)
    """Pairs (from, to) of addresses between which nothing passes."""
    last: dict[tuple[str, str], float] = field(default_factory=dict)
    sent: int = 0
    lost: int = 0

    def arrivals(self, sender: str, receiver: str, now: float, rng: random.Random) -> list[float]:
        """When copies of a message sent now arrive; [] when it is lost."""
        self.sent += 1
        if (sender, receiver) in self.cut or rng.random() < self.loss:
            self.lost += 1
            return []
        at = now + self.latency_s + rng.random() * self.jitter_s
        if rng.random() < self.straying:
            return [at + rng.random() * self.stray_s]
        at = max(at, self.last.get((sender, receiver), 0.0))  # a connection keeps the order
        self.last[sender, receiver] = at
        if rng.random() < self.duplication:
            return [at, at + rng.random() * self.stray_s]
        return [at]

    def partition(self, one: set[str], other: set[str], both_ways: bool = True) -> None:
        """Cuts the links from `one` to `other`."""
        for a in one:
            for b in other:
                self.cut.add((a, b))
                if both_ways:
                    self.cut.add((b, a))

    def heal(self) -> None:
        """All links work again and nothing is lost, doubled or astray from now on."""
        self.cut.clear()
        self.loss = self.duplication = self.straying = 0.0
