"""The description of the API is true: its paths are the routes, whatever is asked is answered as it says, never with 500."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from typing import Any
from urllib.parse import quote

import pytest

from master.openapi import openapi
from tests.memory_fleet import SQL, Client, with_fleet

DOCUMENT = openapi()
SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS = [
    (method, path, operation)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
]
_TYPES: dict[str, Any] = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int,
    "number": (int, float),
}  # fmt: skip


def faults(value: Any, schema: dict[str, Any], at: str = "") -> list[str]:
    """Where a value is not as its schema says."""
    if "$ref" in schema:
        return faults(value, SCHEMAS[schema["$ref"].rpartition("/")[2]], at)
    if "anyOf" in schema:
        found = [faults(value, one, at) for one in schema["anyOf"]]
        return [] if [] in found else found[0]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{at}: {value!r} is none of {schema['enum']}"]
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(
        isinstance(value, _TYPES[kind]) and (kind == "boolean") == isinstance(value, bool) for kind in kinds
    ):
        return [f"{at}: {value!r:.60} is no {kinds}"]
    found = []
    if isinstance(value, dict):
        members, further = schema.get("properties", {}), schema.get("additionalProperties", True)
        found += [f"{at}: {name} is missing" for name in schema.get("required", []) if name not in value]
        for name, inner in value.items():
            if name in members:
                found += faults(inner, members[name], f"{at}.{name}")
            elif further is False:
                found.append(f"{at}: {name} is not described")
            elif isinstance(further, dict):
                found += faults(inner, further, f"{at}.{name}")
    if isinstance(value, list):
        found += [fault for inner in value for fault in faults(inner, schema.get("items", {}), f"{at}[]")]
    return found


def test_the_checker_finds_faults() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
    assert faults({"a": 1}, schema) == []
    for wrong in ({}, {"a": "1"}, {"a": True}, {"a": 1, "b": 2}, []):
        assert faults(wrong, schema)


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


class Asker:
    """Random requests: most of them nearly right, some mere noise."""

    TEXTS = (
        "", "hot", "none", "web3", "a b", "..", "%00", "ä", "x" * 300, "1", "-1", "true", "null", '"1"', "*", "W/\"1\"",
        "2025-11-28T20:00:00Z", "-10m", "csv", "json", "0.0.1", "all.all.1", "99999999999999999999", "\u2028", "final", "{}",
    )  # fmt: skip

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self, depth: int = 3) -> Any:
        pick = self.random.randrange(9 if depth else 7)
        if pick == 7:
            return [self.value(depth - 1) for _ in range(self.random.randrange(4))]
        if pick == 8:
            return {self.random.choice(self.TEXTS): self.value(depth - 1) for _ in range(self.random.randrange(4))}
        return (None, True, 0, -1.5, 2**70, self.random.choice(self.TEXTS), self.random.randrange(10))[pick]

    def of(self, schema: dict[str, Any], name: str = "") -> Any:
        """As the schema says, mostly."""
        if self.random.random() < 0.06:
            return self.value()
        if "$ref" in schema:
            return self.of(SCHEMAS[schema["$ref"].rpartition("/")[2]])
        if "anyOf" in schema:
            return self.of(self.random.choice(schema["anyOf"]))
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        kinds = schema.get("type", "string")
        kind = kinds if isinstance(kinds, str) else self.random.choice(kinds)
        if kind == "object":
            members = schema.get("properties", {})
            chosen = {one for one in members if one in schema.get("required", ()) or self.random.random() < 0.3}
            found = {one: self.of(members[one], one) for one in chosen}
            return found if self.random.random() > 0.05 else {**found, "odd": 1}
        if kind == "string":
            queries = (SQL, SQL, "SELECT", "SELECT count(*) FROM access WHERE status = :x")
            known = {"sql": queries, "name": ("hot", "cold", "j1")}
            durations = ("1s", "10m", "0", "500ms", "-1s", "99999d")
            return self.random.choice(known.get(name, durations if self.random.random() < 0.7 else self.TEXTS))
        return {"integer": self.random.randrange(4), "number": 1.5, "boolean": True, "null": None}[kind]

    def request(self, path: str, operation: dict[str, Any]) -> tuple[str, dict[str, str], bytes | None]:
        """Path and query, headers, body."""
        query, headers = [], {}
        for one in operation["parameters"]:
            if one["in"] == "path":
                known = {"name": "hot", "agent": "web3", "node": "web1", "kind": "stale"}[one["name"]]
                text = known if self.random.random() < 0.8 else self.random.choice(self.TEXTS)
                path = path.replace("{" + one["name"] + "}", quote(text, safe="") or "x")
            elif self.random.random() < 0.4:
                text = str(self.of(one["schema"], one["name"]))
                if self.random.random() < 0.5:
                    text = self.random.choice(self.TEXTS)
                if one["in"] == "query":
                    query.append(f"{one['name']}={quote(text, safe='')}")
                else:
                    headers[one["name"]] = text if text.isascii() and text.isprintable() else "x"
        if self.random.random() < 0.05:
            query.append("odd=1")
        body = None
        if "requestBody" in operation:
            ((media_type, content),) = operation["requestBody"]["content"].items()
            headers["Content-Type"] = media_type if self.random.random() < 0.95 else "text/plain"
            body = json.dumps(self.of(content["schema"])).encode()
            if self.random.random() < 0.1:
                at = self.random.randrange(len(body) + 1)
                body = body[:at] + self.random.choice((b"", b"\xff", b"\0", b"{", b"[" * 3000)) + body[at:]
        if self.random.random() < 0.1:
            liked = ("*/*", "text/csv", "application/x-ndjson", "image/png;q=0.5", ";;;", "a/b;q=9")
            headers["Accept"] = self.random.choice(liked)
        return path + ("?" + "&".join(query) if query else ""), headers, body


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_asked_is_answered_as_described(seed: int) -> None:
    asker, seen = Asker(seed), Counter[int]()

    async def main(client: Client) -> None:
        await client.submit()
        client.fleet.publish("hot", 0, [["/a", 1]], "tentative")
        client.fleet.publish("hot", None, [["/a", 1], [None, None]])
        for _ in range(300):
            method, path, operation = asker.random.choice(OPERATIONS)
            url, headers, body = asker.request(path, operation)
            if method == "delete" and asker.random.random() < 0.8:
                continue
            number = asker.random.randrange(2)
            where = f"{method} {url} {headers} {body!r:.200}"
            async with client.session.request(
                method, client.running.url(number) + url, data=body, headers=headers
            ) as answer:
                seen[answer.status] += 1
                assert answer.status != 500, where
                if answer.content_type == "text/event-stream":
                    continue
                text = await answer.read()
            if answer.status == 404 and b"/not-found" in text:
                continue  # a name that leads out of the path
            assert str(answer.status) in operation["responses"], f"{where}: {answer.status} {text!r}"
            content = operation["responses"][str(answer.status)].get("content", {})
            assert (answer.content_type in content) == bool(content), where
            if answer.content_type.endswith("json"):
                schema = content[answer.content_type]["schema"]
                lines = text.splitlines() if answer.content_type.endswith("ndjson") else [text]
                assert [fault for line in lines for fault in faults(json.loads(line), schema)] == [], where
            if path == "/v1/jobs/{name}" and method == "delete" and answer.status == 204:
                await client.submit()

    with_fleet(main, 2)
    assert {200, 400, 404} <= seen.keys()
    assert seen[200] > 60


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
