"""The API over mutual TLS: whom it lets in, and how nodes ask each other."""

from __future__ import annotations

import ssl
from pathlib import Path

import aiohttp
import pytest

import elfstream as elf
from elfstream.certs import dial_context, make_authority, make_node, server_context
from master.api_options import ApiOptions
from srt.ids import job_key
from tests.memory_fleet import Client, Running, with_fleet

pytest.importorskip("cryptography")


@pytest.mark.parametrize("token", ["", "secret"])
def test_a_certificate_or_the_token_is_asked_for(tmp_path: Path, token: str) -> None:
    make_authority(tmp_path, 30)
    make_node(tmp_path, "one", ["127.0.0.1"], 20)
    files = [str(tmp_path / name) for name in ("one.pem", "one.key", "ca.pem")]
    with_certificate = dial_context(*files)
    without = ssl.create_default_context(cafile=files[2])
    (tmp_path / "other").mkdir()
    make_authority(tmp_path / "other", 30)
    make_node(tmp_path / "other", "one", ["127.0.0.1"], 20)
    stranger = ssl.create_default_context(cafile=files[2])
    stranger.load_cert_chain(tmp_path / "other" / "one.pem", tmp_path / "other" / "one.key")

    class WithTls(Running):
        server_tls = server_context(*files)

    async def main(client: Client) -> None:
        body = {"name": "hot", "sql": "SELECT count(*) AS n FROM access"}
        made = await client("POST", "/v1/jobs", json=body, ssl=with_certificate)
        assert made.status == 201
        leader = client.fleet.leader(job_key("hot"))
        assert (await client("GET", "/v1/jobs/hot", 1 - leader, ssl=with_certificate)).status == 200
        for path in ("/v1/jobs", "/v1/jobs/hot", "/v1/jobs/hot/results/stream", "/metrics", "/v1/openapi.json"):
            refused = await client("GET", path, ssl=without)
            assert (refused.status, refused.kind) == (401, "unauthorized")
            assert ("certificate" in refused.json["detail"]) == (not token)
        bearer = await client("GET", "/v1/jobs", ssl=without, headers={"Authorization": "Bearer secret"})
        assert bearer.status == (200 if token else 401)
        empty = await client("GET", "/v1/jobs", ssl=without, headers={"Authorization": "Bearer "})
        assert empty.status == 401
        assert (await client("GET", "/healthz", ssl=without)).status == 200
        with pytest.raises((aiohttp.ClientError, OSError)):
            await client("GET", "/healthz", ssl=stranger)
        async with elf.connect_async(client.running.url(), tls=with_certificate) as fleet:
            assert [job["name"] for job in await fleet.jobs()] == ["hot"]

    options = ApiOptions(token=token, certificates=True, client_tls=with_certificate)
    with_fleet(main, 2, options, running=WithTls)
