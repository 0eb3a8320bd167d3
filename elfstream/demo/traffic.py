"""What happens in the shop while it is watched: requests and garbage, tick by tick. Pure; one seed gives one play.

A play lasts as long as it is told to and then begins again: shoppers all the time, a burst of crawlers, a scan, a flash
sale that overloads the checkout, somebody guessing passwords, and a little that no server should log.
"""

from __future__ import annotations

from math import pi, sin
from random import Random
from typing import NamedTuple

from elfstream.demo.shop import (
    PAGES,
    PRODUCTS,
    SALE_PAGES,
    SALE_PRODUCTS,
    Hit,
    crawl,
    guess,
    line,
    probe,
    stray,
    torn,
    visits,
)

TICK_S = 0.05
SERVER_SHARES = (0.4, 0.75, 1.0)
"""Cumulative shares of the three servers in the requests."""
KINDS = ("shoppers", "sale", "crawlers", "scanner", "guesser", "strays", "torn", "junk")


class Logged(NamedTuple):
    """One line: `hit` as it was meant, None for garbage that no parser should take; `text` with LF."""

    server: int
    hit: Hit | None
    text: str


def shares(part: float) -> dict[str, float]:
    """How busy each kind is at a `part` (0 to 1) of the play, against the average of all lines."""
    sale = max(0.0, 1.9 - 7 * (part - 0.4)) if 0.4 <= part < 0.65 else 0.0
    return {
        "shoppers": 0.62 + 0.14 * sin(2 * pi * part),
        "sale": sale,
        "crawlers": 0.36 if 0.13 <= part < 0.17 else 0.05,
        "scanner": 0.35 if 0.24 <= part < 0.3 else 0.0,
        "guesser": 0.2 if 0.72 <= part < 0.85 else 0.0,
        "strays": 0.003,
        "torn": 0.0006,
        "junk": 0.0003,
    }


class Traffic:
    """`rate` is in lines a second, averaged over a play of `play_s` seconds."""

    def __init__(self, seed: int, rate: float, play_s: float) -> None:
        self._random = Random(seed)
        self._rate, self._play_s = rate, play_s
        self._owed = dict.fromkeys(KINDS, 0.0)
        self._guesses = 0

    def tick(self, at_s: float, second: int, stamp: str) -> list[Logged]:
        """The lines of TICK_S seconds, `at_s` after the start; they are logged at `second`, written as `stamp`."""
        counts = {}
        for kind, share in shares(at_s % self._play_s / self._play_s).items():
            owed = self._owed[kind] + share * self._rate * TICK_S
            counts[kind], self._owed[kind] = int(owed), owed - int(owed)
        random = self._random
        hits = list(visits(random, [second] * counts["shoppers"], PAGES, PRODUCTS))
        hits += visits(random, [second] * counts["sale"], SALE_PAGES, SALE_PRODUCTS)
        hits += [crawl(random, second) for _ in range(counts["crawlers"])]
        hits += [probe(random, second, 0) for _ in range(counts["scanner"])]
        hits += [self._guess(second) for _ in range(counts["guesser"])]
        hits += [stray(random, second) for _ in range(counts["strays"])]
        logged = [Logged(self._server(), hit, line(hit, stamp)) for hit in hits]
        for hit in visits(random, [second] * counts["torn"], PAGES, PRODUCTS):
            logged.append(Logged(self._server(), None, torn(random, line(hit, stamp))))
        logged += [Logged(self._server(), None, self._junk()) for _ in range(counts["junk"])]
        return logged

    def _server(self) -> int:
        dice = self._random.random()
        return sum(dice >= share for share in SERVER_SHARES)

    def _guess(self, second: int) -> Hit:
        self._guesses += 1
        return guess(second, 0, self._guesses)

    def _junk(self) -> str:
        """What a crashing worker or a stray debug statement leaves in a log."""
        random = self._random
        kinds = (
            "\0" * random.randrange(1, 200),
            "*** stack smashing detected ***",
            f"DEBUG: cart={random.random()}",
        )
        return random.choice(kinds) + "\n"
