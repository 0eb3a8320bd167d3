"""The Python values of literals, as `cython_ext.reference` takes them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from job.plan import Literal
from job.types import Kind


def value_of(literal: Literal) -> Any:
    """The Python value of a literal: a DECIMAL as decimal.Decimal, a DOUBLE as float."""
    if literal.value is None:
        return None
    if literal.type.kind is Kind.DECIMAL:
        return Decimal(str(literal.value))
    return float(literal.value) if literal.type.kind is Kind.DOUBLE else literal.value
