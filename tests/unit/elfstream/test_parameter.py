"""`--param n=v`: what a text on the command line means."""

from __future__ import annotations

from decimal import Decimal

import click
import pytest

from elfstream.commands.options import parameter_value, parameter_values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-7", -7),
        ("+7", 7),
        ("007", 7),
        ("0.25", Decimal("0.25")),
        ("-.5", Decimal("-0.5")),
        ("5.", Decimal("5")),
        ("'7'", "7"),
        ('"0.25"', "0.25"),
        ("''", ""),
        ("'", "'"),
        ("", ""),
        (".", "."),
        ("-", "-"),
        ("1e5", "1e5"),
        ("1_000", "1_000"),
        ("٣", "٣"),
        ("/index.html", "/index.html"),
        ("NaN", "NaN"),
        ("true", "true"),
        (" 7", " 7"),
    ],
)
def test_value(text: str, value: object) -> None:
    found = parameter_value(text)
    assert found == value
    assert type(found) is type(value)


def test_values() -> None:
    assert parameter_values(("s=200", ":p=a=b")) == {"s": 200, "p": "a=b"}


@pytest.mark.parametrize("assignments", [("s",), ("=1",), ("a b=1",), ("s=1", "s=2")])
def test_what_is_no_assignment_is_refused(assignments: tuple[str, ...]) -> None:
    with pytest.raises(click.UsageError, match="--param"):
        parameter_values(assignments)
