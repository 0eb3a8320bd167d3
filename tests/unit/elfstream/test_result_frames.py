"""Results as Arrow tables and pandas frames, where those are installed."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

import elfstream as elf

LOG = Path(__file__).resolve().parents[3] / "examples" / "timed.log"
FORMAT = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent '
    '"$http_referer" "$http_user_agent" $request_time'
)
SQL = """SELECT window(time, '1 hour') AS w, path, count(*) AS n, max(request_time) AS slowest, min(user) AS user,
                approx_percentile(bytes, array(0.5, 0.9)) AS p, max(time) AS latest, avg(bytes) AS mean, true AS yes
         FROM access GROUP BY window(time, '1 hour'), path ORDER BY path LIMIT 1"""
HOUR = (datetime(2025, 11, 28, 19, tzinfo=UTC), datetime(2025, 11, 28, 20, tzinfo=UTC))


def test_arrow() -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table = elf.query(SQL, LOG, format=FORMAT).to_arrow()
    (row,) = table.to_pylist()
    assert (row["w"]["start"], row["w"]["end"]) == HOUR
    assert (row["path"], row["n"], row["slowest"], row["user"]) == ("/", 1, Decimal("0.021000"), None)
    assert row["latest"] == datetime(2025, 11, 28, 19, 0, 1, tzinfo=UTC)
    assert row["p"] == pytest.approx([18211, 18211], rel=0.01)
    assert row["mean"] == 18211.0
    assert row["yes"] is True
    assert table.schema.field("slowest").type == pyarrow.decimal128(18, 6)
    assert table.schema.field("n").type == pyarrow.int64()


def test_arrow_has_its_types_also_without_rows() -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table = elf.query(
        "SELECT path, sum(bytes) AS b FROM access WHERE status = 1 GROUP BY path", LOG, format=FORMAT
    ).to_arrow()
    assert table.num_rows == 0
    assert table.schema.types == [pyarrow.string(), pyarrow.int64()]


def test_pandas() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    frame = elf.query(
        "SELECT path, count(*) AS n FROM access GROUP BY path ORDER BY path", LOG, format=FORMAT
    ).to_pandas()
    assert list(frame.columns) == ["path", "n"]
    assert list(frame.iloc[0]) == ["/", 1]
