"""The command line as people and scripts meet it: what is printed, letter by letter, and how it ends."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import elfstream as elf
from elfstream.cli import main

ROOT = Path(__file__).resolve().parents[2]
GOOD = (
    b'203.0.113.9 - - [28/Nov/2025:20:00:01 +0100] "GET /a?x=1 HTTP/1.1" 200 100 "-" "curl/8.5.0"\n'
    b'203.0.113.9 - - [28/Nov/2025:20:00:31 +0100] "GET /a HTTP/1.1" 200 50 "-" "curl/8.5.0"\n'
    b'203.0.113.10 - - [28/Nov/2025:20:01:02 +0100] "GET /b HTTP/1.1" 404 - "-" ""\n'
    b'203.0.113.11 - - [28/Nov/2025:20:01:03 +0100] "\\x16\\x03\\x01" 400 157 "-" "-"\n'
)
TORN = b'203.0.113.9 - - [28/Nov/2025:20:01:04 +0100] "GET /a HTTP/1.1" 2\n'
HITS = "SELECT path, count(*) AS hits FROM access WHERE path IS NOT NULL GROUP BY path ORDER BY hits DESC"


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "access.log"
    path.write_bytes(GOOD + TORN)
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def piped(stdin: bytes, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "elfstream", *arguments]
    done = subprocess.run(command, cwd=ROOT, input=stdin, capture_output=True, check=False)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


def process(arguments: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "elfstream", *arguments],
        cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip


# query


def test_a_table_is_the_default(log: str) -> None:
    done = run("query", HITS, log)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == "path  hits\n----  ----\n/a       2\n/b       1\n"


def test_json(log: str) -> None:
    sql = """SELECT window(time, '1 minute') AS w, count(*) AS n, sum(bytes) AS b, min(user_agent) AS agent,
                    avg(CAST(bytes AS DECIMAL(10, 2))) AS mean, max(time) AS latest
             FROM access GROUP BY window(time, '1 minute')"""
    done = run("query", sql, log, "-o", "json")
    assert done.stdout == (
        '{"w":{"start":"2025-11-28T19:00:00Z","end":"2025-11-28T19:01:00Z"},"n":2,"b":150,"agent":"curl/8.5.0",'
        '"mean":"75.000000","latest":"2025-11-28T19:00:31Z"}\n'
        '{"w":{"start":"2025-11-28T19:01:00Z","end":"2025-11-28T19:02:00Z"},"n":2,"b":157,"agent":"",'
        '"mean":"157.000000","latest":"2025-11-28T19:01:03Z"}\n'
    )


def test_csv(log: str) -> None:
    sql = """SELECT window(time, '1 minute') AS w, path, min(user_agent) AS agent
             FROM access GROUP BY window(time, '1 minute'), path"""
    done = run("query", sql, log, "-o", "csv")
    minutes = ["2025-11-28T19:00:00Z,2025-11-28T19:01:00Z", "2025-11-28T19:01:00Z,2025-11-28T19:02:00Z"]
    assert done.stdout == (
        f'w.start,w.end,path,agent\n{minutes[0]},/a,curl/8.5.0\n{minutes[1]},,\n{minutes[1]},/b,""\n'
    )


def test_markdown(log: str) -> None:
    done = run("query", HITS, log, "-o", "markdown")
    assert done.stdout == "| path | hits |\n| ---- | ---: |\n| /a   |    2 |\n| /b   |    1 |\n"


def test_stats_are_one_object_on_standard_error(log: str) -> None:
    done = run("query", HITS, log, "--stats")
    stats = json.loads(done.stderr)
    assert stats["lines"] == 5
    assert stats["parsed"] == 4
    assert (stats["rejected"], stats["rejected_by"]) == (1, {"truncated": 1})
    assert (stats["directives"], stats["eval_errors"], stats["groups"]) == (0, 0, 2)
    assert stats["bytes"] == len(GOOD + TORN)
    assert stats["seconds"] >= 0
    assert stats["peak_memory"] > 1_000_000


def test_parameters(log: str) -> None:
    sql = "SELECT count(*) AS n FROM access WHERE status = :s AND path LIKE :p"
    assert run("query", sql, log, "--param", "s=200", "--param", "p=/a%", "-o", "csv").stdout == "n\n2\n"
    missing = run("query", sql, log, "--param", "s=200")
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert ":p" in missing.stderr


def test_rejects_are_kept_as_they_were(log: str, tmp_path: Path) -> None:
    done = run("query", HITS, log, "--rejects", str(tmp_path / "bad"))
    assert done.exit_code == 0
    assert (tmp_path / "bad").read_bytes() == TORN


@pytest.mark.parametrize("command", [("query", HITS), ("parse",)])
def test_rejects_never_empty_a_log(log: str, tmp_path: Path, command: tuple[str, ...]) -> None:
    os.symlink(log, tmp_path / "same")
    for rejects in (log, str(tmp_path / "same")):
        done = run(*command, str(tmp_path / "*.log"), "--rejects", rejects)
        assert (done.exit_code, done.stdout) == (2, "")
        assert "is one of the logs to read" in done.stderr
    assert Path(log).read_bytes() == GOOD + TORN


def test_strict_fails_at_the_first_reject_and_points(log: str) -> None:
    done = run("query", HITS, log, "--strict")
    assert (done.exit_code, done.stdout) == (1, "")
    first, text, caret = done.stderr.splitlines()
    assert first == f"elfstream: error: {log}: line 5, column {caret.index('^') - 1}: rejected as truncated"
    assert text.endswith('"GET /a HTTP/1.1" 2')


def test_standard_input(log: str) -> None:
    for files in ((), ("-",)):
        done = piped(GOOD, "query", HITS, *files, "-o", "csv")
        assert done.stdout == "path,hits\n/a,2\n/b,1\n"


def test_the_table_may_have_another_name(log: str) -> None:
    assert run("query", "SELECT count(*) AS n FROM web", log, "--source", "web", "-o", "csv").stdout == "n\n4\n"
    assert run("query", "SELECT count(*) AS n FROM web", log).exit_code == 2


def test_an_empty_file_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert run("query", "SELECT count(*) AS n FROM access", str(tmp_path / "empty"), "-o", "csv").stdout == "n\n0\n"


def test_a_log_of_another_format_is_told_even_to_scripts(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"nothing of the kind\n\n" + GOOD.splitlines()[2].removesuffix(b' "-" ""') + b"\n")
    for command in (("query", "SELECT count(*) AS n FROM access"), ("parse",)):
        done = run(*command, str(tmp_path / "log"), "--format", "common", "-o", "csv")
        first, text, caret, *_ = done.stderr.splitlines()
        told = "elfstream: warning: 2 of 3 lines do not fit the format common; line 1 stops at column "
        assert first.startswith(told)
        assert text == "  nothing of the kind"
        assert caret.strip() == "^"
        assert run(*command, str(tmp_path / "log"), "--format", "common", "-o", "csv").exit_code == 0


# how it fails


def test_wrong_sql_is_usage_and_shows_the_place(log: str) -> None:
    done = run("query", "SELECT pat, count(*) FROM access GROUP BY pat", log)
    assert (done.exit_code, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert lines[0].startswith("elfstream: error: ")
    assert lines[2].index("^") == lines[1].index("pat")


def test_an_unknown_format_is_usage(log: str) -> None:
    done = run("query", HITS, log, "--format", "combnied")
    assert done.exit_code == 2
    assert "combined" in done.stderr


def test_a_missing_file_is_a_failure(tmp_path: Path) -> None:
    done = run("query", HITS, str(tmp_path / "none.log"))
    assert done.exit_code == 1
    assert done.stderr.startswith(f"elfstream: error: {tmp_path}/none.log: ")


def test_an_unwritable_rejects_file_is_a_failure(log: str, tmp_path: Path) -> None:
    done = run("query", HITS, log, "--rejects", str(tmp_path / "no" / "bad"))
    assert (done.exit_code, done.stderr) == (1, f"elfstream: error: {tmp_path}/no/bad: No such file or directory\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("query",), "Missing argument 'SQL'"),
        (("query", HITS, "-o", "xml"), "'xml' is not one of"),
        (("query", HITS, "x.log", "--threads", "0"), "--threads"),
        (("query", HITS, "x.log", "--param", "s"), "--param s: write name=value"),
        (("qeury",), "there is no command qeury; did you mean query?"),
        (("xyzzy",), "there is no command xyzzy"),
        (("SELECT 1",), "elfstream query"),
    ],
)
def test_usage(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith("elfstream: error: ")
    assert message in done.stderr
    assert "--help'" in done.stderr


def test_sql_and_files_in_the_wrong_order(log: str) -> None:
    done = run("query", log, HITS)
    assert done.exit_code == 2
    assert "the SQL comes before the files" in done.stderr


def test_no_arguments_show_the_help() -> None:
    done = run()
    assert done.exit_code == 2
    assert "Usage: elfstream" in done.stderr


# parse, explain-format, formats, explain, version


def test_parse_to_json(log: str) -> None:
    done = run("parse", log, "--format", "combined", "--fields", "time,path,query,status,bytes")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        '{"time":"2025-11-28T19:00:01Z","path":"/a","query":"x=1","status":200,"bytes":100}',
        '{"time":"2025-11-28T19:00:31Z","path":"/a","query":null,"status":200,"bytes":50}',
        '{"time":"2025-11-28T19:01:02Z","path":"/b","query":null,"status":404,"bytes":null}',
        '{"time":"2025-11-28T19:01:03Z","path":null,"query":null,"status":400,"bytes":157}',
    ]
    assert done.stderr == "1 line rejected: 1 truncated; --rejects FILE keeps them\n"


def test_parse_gives_all_fields_and_plain_numbers() -> None:
    done = run("parse", "examples/timed.log", "--format", "timed", "--server-config", "examples/nginx.conf")
    first = done.stdout.splitlines()[1]
    assert '"request_time":0.245' in first
    record = json.loads(first)
    assert record["request_time"] == 0.245
    assert (record["method"], record["uri"], record["path"], record["query"]) == (
        "GET", "/search?q=lamps", "/search", "q=lamps",
    )  # fmt: skip
    assert record["user"] is None


def test_parse_to_csv(log: str) -> None:
    done = run("parse", log, "--fields", "path,user_agent,bytes", "-o", "csv")
    assert done.stdout == 'path,user_agent,bytes\n/a,curl/8.5.0,100\n/a,curl/8.5.0,50\n/b,"",\n,,157\n'


def test_parse_json_documents_come_out_whole() -> None:
    lines = b'{"a": {"b": [1, 2.50]}, "url": "\\/x", "n": 12345678901234567890}\nnonsense\n[]\n'
    done = piped(lines, "parse", "--format", "json")
    assert done.stdout == '{"a":{"b":[1,2.50]},"url":"\\/x","n":12345678901234567890}\n'
    assert "2 lines rejected" in done.stderr


def test_parse_caddy_has_canonical_fields() -> None:
    line = b'{"ts":1711884605.5,"status":201,"size":88,"request":{"method":"POST","uri":"/notes?draft=1"}}\n'
    done = piped(line, "parse", "--format", "caddy")
    record = json.loads(done.stdout)
    assert (record["time"], record["path"], record["bytes"]) == ("2024-03-31T11:30:05.500000Z", "/notes", 88)
    assert "request" not in record


def test_columns_outside_the_table_of_w3c_have_names_without_auto_too() -> None:
    lines = b"#Fields: date time s-sitename sc-status\n2024-03-14 09:26:53 W3SVC1 200\n"
    done = piped(lines, "parse", "--format", "w3c", "-o", "csv")
    assert done.stdout == "time,s_sitename,status\n2024-03-14T09:26:53Z,W3SVC1,200\n"
    sql = "SELECT s_sitename AS site, count(*) AS n FROM access GROUP BY s_sitename"
    for format in ("w3c", "auto"):
        assert piped(lines, "query", sql, "--format", format, "-o", "csv").stdout == "site,n\nW3SVC1,1\n"


def test_parse_w3c_has_the_columns_that_the_log_names() -> None:
    lines = (
        b"#Fields: date time cs-method cs-uri-stem sc-status\n2024-03-14 09:26:53 GET /a 200\n"
        b"#Fields: date time sc-status\n2024-03-14 09:26:54 404\n"
    )
    done = piped(lines, "parse", "--format", "w3c", "-o", "csv")
    assert done.stderr == ""
    assert done.stdout.splitlines()[0].startswith("time,method,uri,")
    assert done.stdout.splitlines()[1:] == [
        "2024-03-14T09:26:53Z,GET,/a,/a,200",
        "2024-03-14T09:26:54Z,,,,404",
    ]


def test_parse_keeps_rejects(log: str, tmp_path: Path) -> None:
    done = run("parse", log, "--rejects", str(tmp_path / "bad"))
    assert done.exit_code == 0
    assert (tmp_path / "bad").read_bytes() == TORN


def test_parse_strict(log: str) -> None:
    done = run("parse", log, "--strict", "--fields", "path")
    assert done.exit_code == 1
    assert "line 5, column" in done.stderr
    assert done.stderr.splitlines()[-1].strip() == "^"


def test_parse_refuses_unknown_fields(log: str) -> None:
    done = run("parse", log, "--fields", "path,nonsense")
    assert done.exit_code == 2
    assert "nonsense" in done.stderr
    assert "has no field 'statsu'. Did you mean status" in run("parse", log, "--fields", "statsu").stderr


def test_parse_takes_the_names_that_sql_takes(log: str) -> None:
    done = run("parse", log, "--fields", "Status,REQUEST_METHOD,remote_host,url.path", "-o", "csv")
    assert done.stdout.splitlines()[0] == "Status,REQUEST_METHOD,remote_host,url.path"
    plain = run("parse", log, "--fields", "status,method,remote_addr,path", "-o", "csv")
    assert done.stdout.splitlines()[1:] == plain.stdout.splitlines()[1:]


def test_parse_leaves_the_names_of_a_document_alone() -> None:
    done = piped(b'{"Level":"warn","status":200}\n', "parse", "--format", "json", "--fields", "STATUS,Level,level")
    assert done.stdout == '{"STATUS":200,"Level":"warn","level":null}\n'


def test_explain_format_of_a_good_line() -> None:
    done = run("explain-format", "--format", "combined", GOOD.splitlines()[0].decode())
    assert done.exit_code == 0
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "BIGINT" in rows["status"]
    assert "200" in rows["status"]
    assert "2025-11-28 19:00:01Z" in rows["time"]


def test_explain_format_names_the_paths_of_a_document() -> None:
    done = run("explain-format", "--format", "json", '{"status": 200, "geo": {"city": "Köln", "at": [1, 2]}, "x": null}')
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines()[4:]}
    assert rows["status"][1] == "BIGINT"
    assert (rows["geo.city"], rows["geo.at"]) == (["geo.city", "STRING", "Köln"], ["geo.at", "STRING", "[1,2]"])
    assert rows["x"][-1] == "NULL"


def test_explain_format_of_a_bad_line_points() -> None:
    line = GOOD.splitlines()[0].decode().replace("28/Nov", "31/Nov")
    done = run("explain-format", "--format", "combined", line)
    assert done.exit_code == 1
    text, caret = done.stdout.splitlines()[-2:]
    assert text[caret.index("^") :].startswith("31/Nov") or caret.index("^") > text.index("31/Nov")


def test_formats() -> None:
    done = run("formats")
    assert done.exit_code == 0
    for name in ("combined", "w3c", "haproxy_http", "ingress_nginx"):
        assert name in done.stdout
    listed = [json.loads(line) for line in run("formats", "-o", "json").stdout.splitlines()]
    assert {"name", "description", "sample"} <= set(listed[0])


def test_explain() -> None:
    done = run("explain", HITS)
    assert done.exit_code == 0
    assert "BIGINT" in done.stdout
    spark = run("explain", "--spark", HITS)
    assert spark.exit_code == 0
    assert "SELECT" in spark.stdout


def test_version() -> None:
    import elfstream

    assert run("--version").stdout == f"elfstream {elfstream.__version__}\n"
    assert run("version").stdout.startswith(f"elfstream {elfstream.__version__} (")


# demo


def test_the_questions_are_answered_and_checked(tmp_path: Path) -> None:
    done = run("demo", "--questions", "--lines", "3000", "--dir", str(tmp_path / "shop"))
    assert done.exit_code == 0, done.stdout
    assert "Every answer is what the generator meant: exactly, and percentiles within 1%." in done.stdout
    assert " NO\n" not in done.stdout
    again = run("demo", "--questions", "--lines", "3000", "--dir", str(tmp_path / "shop"))
    assert again.exit_code == 2
    sql = "SELECT count(*) AS n FROM access"
    config = ("--server-config", str(tmp_path / "shop" / "nginx.conf"), "--format", "timed")
    assert run("query", sql, str(tmp_path / "shop/web*/access.log*"), *config, "-o", "csv").stdout == "n\n2998\n"


def test_options_of_one_demo_are_no_options_of_the_other() -> None:
    assert "--rate and --seconds" in run("demo", "--lines", "3000").stderr
    assert "--dir keeps the logs" in run("demo", "--questions", "--keep").stderr


# as processes


def test_help_does_not_wait_for_the_machinery() -> None:
    code = "import sys; from elfstream.cli import main\ntry: main(['--help'])\nfinally: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "Usage: elfstream" in done.stdout
    heavy = {"rich", "sqlglot", "msgspec", "job.plan", "job.types", "agent", "cython_ext", "zstandard", "asyncio"}
    assert heavy & set(done.stderr.split()) == set()


def test_a_broken_pipe_is_quiet(tmp_path: Path) -> None:
    (tmp_path / "long.log").write_bytes(GOOD * 5_000)
    command = f"{sys.executable} -m elfstream parse {tmp_path}/long.log --format combined | head -n 1"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith('{"remote_addr":"203.0.113.9"')


def test_the_exit_code_after_a_broken_pipe(tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("needs bash for PIPESTATUS")
    (tmp_path / "long.log").write_bytes(GOOD * 5_000)
    command = f"{sys.executable} -m elfstream parse {tmp_path}/long.log | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_interrupted() -> None:
    command = [sys.executable, "-m", "elfstream", "query", "SELECT count(*) FROM access", "-", "--format", "combined"]
    # A shell starts background jobs with SIGINT ignored; the child must be one that Ctrl-C reaches.
    heard = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stderr=pipe, preexec_fn=heard) as child:  # noqa: PLW1509
        assert child.stdin is not None
        assert child.stderr is not None
        child.stdin.write(GOOD * 40_000)  # more than a pipe holds: when this returns, the query is reading
        child.stdin.flush()
        child.send_signal(signal.SIGINT)
        child.stdin.close()
        told = child.stderr.read()
        assert child.wait() == 130
    assert b"Traceback" not in told


def test_exit_codes_and_streams(log: str) -> None:
    done = process(["query", HITS, log, "-o", "csv"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "path,hits\n/a,2\n/b,1\n", "")
    assert process(["query", "SELECT", log]).returncode == 2
    assert process(["query", HITS, "/nowhere.log"]).returncode == 1


def test_output_is_utf8_in_any_locale(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(GOOD.replace(b"/b", "/✓".encode()))
    done = process(["query", HITS, str(tmp_path / "log"), "-o", "csv"], LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert "/✓,1" in done.stdout


# on a terminal


def on_a_terminal(arguments: Sequence[str], **environment: str) -> str:
    """What a terminal of 80 columns shows."""
    import pty

    try:
        leader, follower = pty.openpty()
    except OSError as error:
        pytest.skip(f"this machine has no terminal to lend: {error}")
    settings = {**os.environ, "TERM": "xterm", "COLUMNS": "80", **environment}
    command = [sys.executable, "-m", "elfstream", *arguments]
    with subprocess.Popen(command, cwd=ROOT, env=settings, stdin=follower, stdout=follower, stderr=follower):
        os.close(follower)
        shown = b""
        try:
            while part := os.read(leader, 65536):
                shown += part
        except OSError:  # Linux: EIO when the other side is closed
            pass
    os.close(leader)
    return shown.decode().replace("\r\n", "\n")


def test_a_terminal_gets_colour_and_a_summary(log: str) -> None:
    shown = on_a_terminal(["query", HITS, log])
    assert "\x1b[1mpath" in shown
    assert "2 rows · 5 lines" in shown
    assert "format combined" in shown
    assert "1 line rejected: 1 truncated; --rejects FILE keeps them" in shown


def test_no_color_and_quiet(log: str) -> None:
    shown = on_a_terminal(["query", HITS, log, "--quiet"], NO_COLOR="1")
    assert "\x1b[" not in shown
    assert "rows ·" not in shown
    assert "1 line rejected" in shown


def test_a_terminal_without_a_file_is_asked_for_one() -> None:
    shown = on_a_terminal(["query", HITS])
    assert "name the log files to read, or - for standard input" in shown


def test_completion_knows_commands_and_formats() -> None:
    settings = {"_ELFSTREAM_COMPLETE": "bash_complete", "COMP_CWORD": "3", "COMP_WORDS": "elfstream query --format cl"}
    assert process([], **settings).stdout.split() == ["plain,cloudfront", "plain,cloud_storage"]
    settings |= {"COMP_CWORD": "1", "COMP_WORDS": "elfstream de"}
    assert process([], **settings).stdout.split() == ["plain,demo"]


def test_the_example_program(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "examples/hot_products.py"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "334 lines, 2 rejected, format combined"
    assert len(done.stdout.splitlines()) == 9


def test_a_time_zone_in_every_command_that_reads_times(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text("2024-07-15 12:00:00 200\n")
    zoned = ("--format", "%{%Y-%m-%d %H:%M:%S}t %>s", "--timezone", "Europe/Berlin")
    asked = run("query", "SELECT min(time) AS t FROM access", str(log), *zoned, "-o", "csv")
    assert asked.stdout.splitlines()[1] == "2024-07-15T10:00:00Z"
    assert run("parse", str(log), *zoned).stdout == '{"time":"2024-07-15T10:00:00Z","status":200}\n'
    assert "2024-07-15 10:00:00Z" in run("explain-format", "2024-07-15 12:00:00 200", *zoned).stdout
    wrong = run("parse", str(log), *zoned[:3], "Europe/Belrin")
    assert (wrong.exit_code, "Did you mean Europe/Berlin?" in wrong.stderr) == (2, True)


@pytest.mark.parametrize("content", [b"", b"\n", b"\n  \n\r\n"])
def test_a_log_without_lines_is_no_error(tmp_path: Path, content: bytes) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(content)
    lines = content.count(b"\n")
    asked = run("query", "SELECT count(*) AS n FROM access", str(log), "-o", "json", "--stats")
    assert (asked.exit_code, asked.stdout) == (0, '{"n":0}\n')
    stats = json.loads(asked.stderr)
    assert (stats["lines"], stats["parsed"], stats["rejected"]) == (lines, 0, lines)
    for command in (("query", "SELECT count(*) AS n FROM access"), ("parse",)):
        done = run(*command, str(log))
        assert (done.exit_code, done.stderr.splitlines()[0]) == (
            *(0, "elfstream: warning: nothing could be detected: no file has a line that is not blank; read as combined"),
        )
        assert "nothing" not in run(*command, str(log), "--quiet").stderr


def test_a_line_that_is_too_long_is_kept_cut_and_with_its_size(tmp_path: Path) -> None:
    size = (9 << 20) + 5
    log, kept = tmp_path / "access.log", tmp_path / "bad"
    log.write_bytes(GOOD + b"x" * size + b"\n" + GOOD)
    for command in (("query", "SELECT count(*) AS n FROM access", "-o", "json", "--stats"), ("parse",)):
        done = run(*command, str(log), "--rejects", str(kept), "--format", "combined")
        text = kept.read_bytes()
        assert len(text) < 70_000
        assert text.endswith(b"x [elfstream: cut, 65536 of %d bytes]\n" % size)
        if command[0] == "query":
            assert json.loads(done.stderr)["bytes"] == log.stat().st_size
    result = elf.query("SELECT count(*) FROM access", log, format="combined")
    assert [(sample.reason, sample.size_bytes) for sample in result.stats.samples] == [("too_long", size)]


@pytest.mark.parametrize("command", ["query", "parse", "explain", "explain-format", "formats", "version"])
def test_every_help_ends_with_examples_and_exit_codes(command: str) -> None:
    done = run(command, "--help")
    assert done.exit_code == 0
    parts = [part for part in done.stdout.split("\n\n") if not part.startswith("  A --param")]
    examples, codes = parts[-2:]
    assert examples.startswith(("  Examples:\n", "  Example:\n"))
    assert all("elfstream" in line or line.startswith("      ") for line in examples.splitlines()[1:])
    assert codes.startswith("  Exit codes: 0 done, 1 failed, 2 wrong usage")


@pytest.mark.parametrize("command", ["parse", "explain-format", "formats"])
def test_examples_of_the_help_name_options_that_exist(command: str) -> None:
    text = run(command, "--help").stdout
    options, examples = text[: text.index("Example")], text[text.index("Example") :]
    used = {word.strip("'\"") for word in examples.split() if word.startswith("--")}
    assert [option for option in used if option not in options] == []


def test_the_module_is_the_command() -> None:
    command = [sys.executable, "-m", "elfstream", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: elfstream [OPTIONS] COMMAND")
    assert "Exit codes:" in done.stdout


def test_formats_have_other_names() -> None:
    assert "(also nginx, apache, nginx_combined" in run("formats").stdout
    listed = {one["name"]: one for one in map(json.loads, run("formats", "-o", "json").stdout.splitlines())}
    assert listed["w3c"]["aliases"] == ["iis", "w3c_extended"]
    assert json.loads(run("formats", "$status", "-o", "json").stdout)["aliases"] == []


def test_the_example_of_a_w3c_line() -> None:
    done = piped(b"#Fields: date time c-ip\n2024-03-14 09:26:53 192.0.2.1", "explain-format", "-")
    assert (done.returncode, "192.0.2.1" in done.stdout) == (0, True)
