"""Logs as servers leave them: their names of fields, their compressed files."""

from __future__ import annotations

import gzip
from pathlib import Path

from click.testing import CliRunner

import elfstream as elf
from elfstream.cli import main

LOG = Path(__file__).resolve().parents[2] / "examples" / "access.log"


def test_nginx_variables_and_canonical_names_are_one_field() -> None:
    (row,) = elf.query("SELECT sum(body_bytes_sent) AS a, sum(bytes) AS b FROM access", LOG, format="combined")
    assert row.a == row.b > 0


def test_bytes_behind_gzip_data_are_told(tmp_path: Path) -> None:
    log = tmp_path / "access.log.1.gz"
    line = b'203.0.113.9 - - [28/Nov/2025:20:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "-"\n'
    log.write_bytes(gzip.compress(line * 3) + b"something else")
    sql = "SELECT count(*) AS n FROM access"
    done = CliRunner().invoke(main, ["query", sql, str(log), "-o", "csv"])
    assert (done.exit_code, done.stdout) == (0, "n\n3\n")
    assert done.stderr == f"elfstream: warning: {log}: bytes behind the end of the gzip data were ignored\n"
    assert elf.query(sql, log).stats.trailing_garbage == [str(log)]
