"""What people get wrong, and what they are told: sql_errors.txt, over the fields of the combined format.

Each entry is a query and the error as it is shown. ELFSTREAM_UPDATE_DOCS=1 writes what is said today into the file; read
the difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from job import formats
from job.errors import SqlError
from job.plan import Schema
from job.sql import compile_sql

GOLDEN = Path(__file__).with_name("sql_errors.txt")
MARK = ">>> "
ENTRIES = dict(entry.split("\n", 1) for entry in GOLDEN.read_text("utf-8").split(MARK)[1:])
COMBINED = formats.find("combined")
SCHEMAS = {"access": Schema(dict(COMBINED.fields), COMBINED.open_fields, COMBINED.aliases)}


def refusal(sql: str) -> SqlError:
    with pytest.raises(SqlError) as caught:
        compile_sql(sql, SCHEMAS)
    return caught.value


@pytest.mark.parametrize("sql", ENTRIES)
def test_an_error_says_what_where_and_what_to_do(sql: str) -> None:
    error = refusal(sql)
    assert error.message
    assert error.position is not None
    assert 0 <= error.position <= len(sql)
    assert error.advice


def test_errors_read_as_recorded() -> None:
    now = "".join(f"{MARK}{sql}\n{refusal(sql)}\n\n" for sql in ENTRIES)
    if os.environ.get("ELFSTREAM_UPDATE_DOCS") == "1":
        GOLDEN.write_text(now, "utf-8")
    assert now == GOLDEN.read_text("utf-8")
