"""Log formats by their name in nginx's and Apache's own configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from job.errors import FormatError
from job.formats import find
from job.formats.server_config import DEPTH_MAX, FILE_BYTES_MAX, read

NGINX = """
user www-data; # a comment with 'an apostrophe
events { worker_connections 768; }
http {
    include mime.types;
    log_by_lua_block { ngx.log("it's {fine}") }
    map $uri $loggable { ~^/health 0; default 1; }
    log_format timed '$remote_addr [$time_local] "$request" '
                     "\\"$http_user_agent\\" ${request_time}\\t$status";
    log_format  js escape=json  '{"s":$status}' ;
    include conf.d/*.conf;
}
"""
APACHE = r"""
# LogFormat "%h" commented
ServerRoot "/nowhere/here"
<IfModule log_config_module>
    LogFormat "%h %l %u %t \"%r\" %>s %b \
\"%{Referer}i\" \"%{User-Agent}i\"" combined
    LogFormat '%v %h' hosts
    LogFormat "%a"
    CustomLog "logs/access_log" combined
</IfModule>
Include sites
IncludeOptional none/*.conf
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / next(iter(files))


def test_nginx(tmp_path: Path) -> None:
    main = write(tmp_path, {"nginx.conf": NGINX, "conf.d/a.conf": "log_format short '$host $status';"})
    assert sorted(read(main)) == ["combined", "js", "short", "timed"]
    timed = find("timed", server_config=main)
    assert timed.text == '$remote_addr [$time_local] "$request" "$http_user_agent" ${request_time}\t$status'
    assert timed.title == f"nginx's timed of {main}:8"
    assert find("JS", server_config=main).fields.keys() == {"status"}
    assert find("short", server_config=main).program == find("$host $status").program
    assert "user_agent" in find("combined", server_config=main).fields


def test_the_last_definition_wins(tmp_path: Path) -> None:
    main = write(tmp_path, {"n.conf": "log_format a '$host';\ninclude x;", "x": "log_format a '$status';"})
    assert list(find("a", server_config=main).fields) == ["status"]


def test_apache(tmp_path: Path) -> None:
    main = write(tmp_path, {"httpd.conf": APACHE, "sites/one.conf": 'LogFormat "%D %h" slow'})
    assert sorted(read(main)) == ["combined", "hosts", "slow"]
    assert find("combined", server_config=main).program == find("combined").program
    assert find("hosts", server_config=main).title == f"Apache's hosts of {main}:7"
    assert list(find("slow", server_config=main).fields) == ["duration_us", "remote_addr"]


def test_apache_includes_stand_below_the_server_root(tmp_path: Path) -> None:
    main = write(
        tmp_path,
        {"conf/httpd.conf": f'ServerRoot "{tmp_path}"\nInclude extra/log.conf', "extra/log.conf": "LogFormat %h h"},
    )
    assert list(read(main)) == ["h"]


def test_a_name_that_is_not_there(tmp_path: Path) -> None:
    main = write(tmp_path, {"nginx.conf": NGINX, "conf.d/a.conf": "server { listen 80; }"})
    with pytest.raises(FormatError) as caught:
        find("main", server_config=main)
    assert str(caught.value) == (
        f"no log format is called 'main' in {main} or the 1 files it includes; there are combined, timed, js. "
        f"These includes could not be read: {tmp_path / 'mime.types'}: no such file"
    )


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"n.conf": "include n.conf;"}, "includes itself"),
        ({"n.conf": "log_format a '$host"}, "line 1: the text that starts with ' is not closed"),
        ({"n.conf": "log_format a '$host$args';"}, "n.conf:1: column 6 of the format: $host and $args stand side"),
        ({"n.conf": " " * (FILE_BYTES_MAX + 1)}, "larger than 4 MiB"),
        (
            {"n.conf": "include 0;", **{str(n): f"include {n + 1};" for n in range(DEPTH_MAX + 1)}},
            "nested more than 16 deep",
        ),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, files: dict[str, str], says: str) -> None:
    with pytest.raises(FormatError) as caught:
        find("a", server_config=write(tmp_path, files))
    assert says in str(caught.value)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no such file; --server-config takes"):
        find("main", server_config=tmp_path / "nginx.conf")
    with pytest.raises(FormatError, match="no such file"):
        find("main", server_config=tmp_path)
