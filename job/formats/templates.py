"""Templates of the servers: literals, and signs behind which something else stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def pieces_at(mark: str, template: str, found_at: Callable[[str, int], tuple[Sequence[T], int]]) -> list[bytes | T]:
    """Literals that are not empty, and what stands at each `mark`: `found_at` is asked with the template and where the mark
    is, and tells also where it goes on."""
    pieces: list[bytes | T] = []
    index = 0
    while (at := template.find(mark, index)) >= 0:
        pieces.append(template[index:at].encode())
        found, index = found_at(template, at)
        pieces += found
    pieces.append(template[index:].encode())
    return [piece for piece in pieces if piece != b""]
