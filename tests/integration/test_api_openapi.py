"""The description of the API is true: its paths are the routes, whatever is asked is answered as it says, never with 500."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from master.openapi import openapi
from tests.memory_fleet import Client, with_fleet

DOCUMENT = openapi()
SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS = [
    (method, path, operation)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
]


def test_paths_are_the_routes() -> None:
    async def main(client: Client) -> None:
        routes = {
            (route.method.lower(), route.resource.canonical)
            for route in client.running.apis[0].app.router.routes()
            if route.resource is not None and route.method != "HEAD"
        }
        routes -= {("get", "/"), ("get", "/page/{file}")}  # for people
        assert routes == {(method, path) for method, path, _ in OPERATIONS}
        assert (await client("GET", "/v1/openapi.json")).json == json.loads(json.dumps(DOCUMENT))

    with_fleet(main)


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        inner = [one for each in value.values() for one in _references(each)]
        return [value["$ref"], *inner] if "$ref" in value else inner
    return [one for each in value for one in _references(each)] if isinstance(value, list) else []


def test_references_lead_somewhere_and_every_schema_is_used() -> None:
    used = {reference.rpartition("/")[2] for reference in _references(DOCUMENT)}
    assert used == SCHEMAS.keys()
    for _, path, operation in OPERATIONS:
        named = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
        assert named == {part[1:-1] for part in path.split("/") if part.startswith("{")}


@pytest.mark.parametrize("seed", range(2))
def test_bytes_that_are_no_http_do_no_harm(seed: int) -> None:
    rng = random.Random(seed)
    head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n"
    good = head + b"{" * 40

    async def main(client: Client) -> None:
        host, _, port = client.fleet.nodes[0].ref.address.partition(":")
        for _ in range(60):
            sent = bytearray(good)
            for _ in range(rng.randrange(1, 6)):
                sent[rng.randrange(len(sent))] = rng.randrange(256)
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(bytes(sent))
            writer.write_eof()
            answer = await reader.read(100_000)
            assert b" 500 " not in answer.split(b"\r\n")[0]
            writer.close()
        assert (await client("GET", "/v1/jobs")).status == 200
        assert client.running.apis[0].counters()["http_requests_active"] == 0

    with_fleet(main)
