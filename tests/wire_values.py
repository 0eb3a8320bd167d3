"""Values of messages, made from the types of their fields: any, for properties, and one, for golden bytes."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from job.plan_book import PlanBook
from tests.plans import plan

Inspect = msgspec.inspect


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any within the limits, but short. `kind` is what msgspec.inspect says of a type."""
    if isinstance(kind, Inspect.BytesType):
        return st.binary(min_size=kind.min_length or 0, max_size=min(kind.max_length or 64, 64))
    if isinstance(kind, Inspect.StrType):
        return st.text(min_size=kind.min_length or 0, max_size=min(kind.max_length or 20, 20))
    if isinstance(kind, Inspect.IntType):
        return st.integers(kind.ge, kind.le if kind.lt is None else kind.lt - 1)
    if isinstance(kind, Inspect.FloatType):
        return st.floats(max_value=kind.le, allow_nan=False)
    if isinstance(kind, Inspect.BoolType):
        return st.booleans()
    if isinstance(kind, Inspect.NoneType):
        return st.none()
    if isinstance(kind, Inspect.EnumType):
        return st.sampled_from(list(kind.cls))
    if isinstance(kind, Inspect.ListType | Inspect.VarTupleType):
        least = kind.min_length or 0
        found = st.lists(
            values(kind.item_type), min_size=least, max_size=max(least, min(kind.max_length or 3, 3))
        )
        return found.map(tuple) if isinstance(kind, Inspect.VarTupleType) else found
    if isinstance(kind, Inspect.TupleType):
        return st.tuples(*(values(part) for part in kind.item_types))
    if isinstance(kind, Inspect.UnionType):
        return st.one_of(*(values(part) for part in kind.types))
    assert isinstance(kind, Inspect.StructType), kind
    if kind.cls is PlanBook:
        return st.sampled_from([PlanBook(), PlanBook().revised(0, plan())])
    return st.builds(kind.cls, **{field.name: values(field.type) for field in kind.fields})


def sample(kind: Any) -> Any:
    """One with something in every field."""
    if isinstance(kind, Inspect.BytesType):
        return bytes(range(kind.min_length or 3))
    if isinstance(kind, Inspect.StrType):
        return "text"
    if isinstance(kind, Inspect.IntType):
        return 1 if (kind.le if kind.lt is None else kind.lt - 1) < 300 else 300
    if isinstance(kind, Inspect.FloatType):
        return 1.5
    if isinstance(kind, Inspect.BoolType):
        return True
    if isinstance(kind, Inspect.EnumType):
        return list(kind.cls)[-1]
    if isinstance(kind, Inspect.ListType):
        return [sample(kind.item_type)]
    if isinstance(kind, Inspect.VarTupleType):
        return (sample(kind.item_type),)
    if isinstance(kind, Inspect.TupleType):
        return tuple(sample(part) for part in kind.item_types)
    if isinstance(kind, Inspect.UnionType):
        return sample(next(part for part in kind.types if not isinstance(part, Inspect.NoneType)))
    assert isinstance(kind, Inspect.StructType), kind
    if kind.cls is PlanBook:
        return PlanBook(1)  # plans have a version of their own
    return kind.cls(**{field.name: sample(field.type) for field in kind.fields})
