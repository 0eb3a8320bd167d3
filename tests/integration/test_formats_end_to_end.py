"""Names of fields as the server's own documentation has them work in a query too."""

from __future__ import annotations

from pathlib import Path

import elfstream as elf

LOG = Path(__file__).resolve().parents[2] / "examples" / "access.log"


def test_nginx_variables_and_canonical_names_are_one_field() -> None:
    (row,) = elf.query("SELECT sum(body_bytes_sent) AS a, sum(bytes) AS b FROM access", LOG, format="combined")
    assert row.a == row.b > 0
