"""Jobs over HTTP: what each request answers, and each way in which it is refused."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest
from aiohttp import web

from master import api_guard
from master.api_options import ApiOptions
from master.requests import ChangeJob, RecoverJob, Refusal, StopJob, SubmitJob
from master.service import ConfigMistake
from srt.ids import job_key
from tests.memory_fleet import SQL, Client, Running, with_fleet

OTHER_SQL = "SELECT status, count(*) AS n FROM access GROUP BY status"


def test_a_job_is_made_once() -> None:
    async def main(client: Client) -> None:
        made = await client.submit(settings={"emit": "1s"})
        assert (made.status, made.headers["Location"], made.headers["ETag"]) == (201, "/v1/jobs/hot", '"1"')
        assert made.json["settings"]["emit"] == "1s"
        assert [column["name"] for column in made.json["columns"]] == ["w", "path", "hits"]
        again = await client.submit(settings={"emit": "1s"})
        assert again.status == 200
        other = await client("POST", "/v1/jobs", json={"name": "hot", "sql": OTHER_SQL})
        assert (other.status, other.kind, other.json["field"]) == (409, "exists", "name")
        listed = await client("GET", "/v1/jobs")
        assert [job["name"] for job in listed.json["jobs"]] == ["hot"]

    with_fleet(main)


def test_lists_are_read_in_pages() -> None:
    async def main(client: Client) -> None:
        for name in ("c", "a", "b"):
            await client.submit(name)
        names, after = [], ""
        while after is not None:
            page = (await client("GET", f"/v1/jobs?limit=2&after={after}")).json
            names += [job["name"] for job in page["jobs"]]
            after = page["next"]
        assert names == ["a", "b", "c"]
        assert (await client("GET", "/v1/jobs?state=stopped")).json["jobs"] == []
        assert (await client("GET", "/v1/jobs?source=other")).json["jobs"] == []

    with_fleet(main)


def test_a_list_says_which_jobs_nobody_leads() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        fleet, asked = client.fleet, client.fleet.nodes[0].asked
        assert await problems(client) == [None]
        asked.clear()
        assert await problems(client) == [None]
        assert asked == []  # what was known a moment ago is not asked again

        async def later(refused: Refusal | None, leaderless: bool = False) -> list[str | None]:
            fleet.refused, fleet.leaderless = refused, leaderless
            return await problems(client)

        with mock.patch("master.api_standings.FRESH_S", 0.0):
            why = "no leader: 1 of 3 members answers"
            assert await later(Refusal("leaderless", why)) == [why]
            shown = await client("GET", "/v1/jobs/hot")
            assert (shown.status, shown.kind, shown.json["detail"]) == (503, "no-master", why)
            assert "job recover" in shown.json["advice"]
            assert await later(Refusal("electing", "a leader is being elected: 2 of 3 members answer")) == [None]
            assert await later(Refusal("busy", "the master was not found")) == [None]
            assert await later(None, leaderless=True) == ["no leader: the node that is closest to it knows none"]
            assert await later(None) == [None]

    with_fleet(main)


async def problems(client: Client) -> list[str | None]:
    return [job["problem"] for job in (await client("GET", "/v1/jobs")).json["jobs"]]


def test_a_change_names_the_revision_it_is_made_to() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        body = {"sql": OTHER_SQL}
        for method in ("PUT", "PATCH"):
            refused = await client(method, "/v1/jobs/hot", json=body)
            assert (refused.status, refused.kind) == (428, "unconditional")
            stale = await client(method, "/v1/jobs/hot", json=body, headers={"If-Match": '"7"'})
            assert (stale.status, stale.kind) == (412, "stale")
            unknown = await client(method, "/v1/jobs/none", json=body, headers={"If-Match": "*"})
            assert (unknown.status, unknown.kind) == (404, "unknown")
        changed = await client("PATCH", "/v1/jobs/hot", json={"settings": {"emit": "2s"}}, headers={"If-Match": '"1"'})
        assert (changed.status, changed.headers["ETag"]) == (200, '"2"')
        assert (changed.json["sql"], changed.json["settings"]["emit"]) == (SQL, "2s")
        replaced = await client(
            "PUT", "/v1/jobs/hot?start=2025-11-28T20:00:00Z", json=body, headers={"If-Match": '"2"'}
        )
        assert (replaced.json["sql"], replaced.json["settings"]["emit"]) == (OTHER_SQL, "500ms")
        history = (await client("GET", "/v1/jobs/hot/changes")).json
        assert [change["revision"] for change in history["changes"]] == [1, 2, 3]
        assert history["changes"][2]["start"] == "2025-11-28T20:00:00Z"
        (change, _) = [request for request in client.fleet.nodes[0].asked if isinstance(request, ChangeJob)]
        assert change.expected_revision == 1

    with_fleet(main)


def test_a_patch_with_null_takes_the_default_and_keeps_parameters() -> None:
    async def main(client: Client) -> None:
        sql = "SELECT count(*) AS n FROM access WHERE status = :status AND path = :path"
        given = {"status": 500, "path": "/a"}
        await client.submit("p", sql, settings={"emit": "2s", "expect": 3}, parameters=given)
        patch = {"settings": {"emit": None}, "parameters": {"path": "/b"}}
        changed = await client("PATCH", "/v1/jobs/p", json=patch, headers={"If-Match": "*"})
        assert changed.json["parameters"] == {"status": 500, "path": "/b"}
        assert (changed.json["settings"]["emit"], changed.json["settings"]["expect"]) == ("500ms", 3)
        gone = await client("PATCH", "/v1/jobs/p", json={"parameters": {"path": None}}, headers={"If-Match": "*"})
        assert (gone.status, gone.json["field"]) == (422, "parameters")

    with_fleet(main)


def test_recovering_is_meant() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        for body in ({}, {"confirm": "cold"}, {"confirm": True}):
            refused = await client("POST", "/v1/jobs/hot/recover", json=body)
            assert (refused.status, refused.kind, refused.json["field"]) == (400, "invalid", "confirm")
            assert "lost for good" in refused.json["detail"]
        done = await client("POST", "/v1/jobs/hot/recover", json={"confirm": "hot"})
        assert (done.status, done.json["name"]) == (200, "hot")
        assert [request for request in client.fleet.nodes[0].asked if isinstance(request, RecoverJob)]

    with_fleet(main)


def test_stop_forget_and_remove() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        stopped = await client("POST", "/v1/jobs/hot/stop", json={"drain": True})
        assert (stopped.status, stopped.json["state"]) == (200, "draining")
        assert (await client("POST", "/v1/jobs/hot/stop")).json["state"] == "stopped"
        assert [r.drain for r in client.fleet.nodes[0].asked if isinstance(r, StopJob)] == [True, False]
        stale = await client("POST", "/v1/jobs/hot/stop", headers={"If-Match": '"2"'})
        assert stale.status == 412
        assert (await client("POST", "/v1/jobs/hot/agents/web3/forget")).status == 200
        assert client.fleet.jobs[job_key("hot")].forgotten == ["web3"]
        nobody = await client("POST", "/v1/jobs/hot/agents/web9/forget")
        assert (nobody.status, nobody.json["field"]) == (404, "agent")
        assert (await client("DELETE", "/v1/jobs/hot", headers={"If-Match": '"2"'})).status == 412
        assert (await client("DELETE", "/v1/jobs/hot", headers={"If-Match": '"1"'})).status == 204
        assert (await client("DELETE", "/v1/jobs/hot")).status == 404
        assert (await client("GET", "/v1/jobs/hot")).status == 404

    with_fleet(main)


def test_validation_answers_what_is_wrong_and_where() -> None:
    async def main(client: Client) -> None:
        good = (await client("POST", "/v1/validate", json={"sql": OTHER_SQL})).json
        assert good["valid"] is True
        assert good["source"] == "access"
        assert "GROUP BY" in good["spark_sql"]
        assert any("Without a window" in warning for warning in good["warnings"])
        sql = "SELECT stat,\n  count(*)\nFROM access GROUP BY stat"
        bad = (await client("POST", "/v1/validate", json={"sql": sql})).json
        (error,) = bad["errors"]
        assert (bad["valid"], error["field"], error["position"], error["line"], error["column"]) == (False, "sql", 7, 1, 8)
        assert "status" in error["advice"]
        second = (await client("POST", "/v1/validate", json={"sql": "SELECT count(*)\nFROM acces"})).json["errors"][0]
        assert (second["line"], second["column"]) == (2, 6)
        setting = (await client("POST", "/v1/validate", json={"sql": SQL, "settings": {"emi": "1s"}})).json
        assert setting["errors"][0]["field"] == "settings.emi"

    with_fleet(main)  # fmt: skip


def test_a_change_is_validated_as_it_would_be_made() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        good = (await client("POST", "/v1/jobs/hot/validate", json={"settings": {"emit": "1m"}})).json
        assert good["settings"]["emit"] == "1m"
        assert any("agents send only every 1 minute" in warning for warning in good["warnings"])
        assert (await client("POST", "/v1/jobs/hot/validate", json={"sql": "SELECT"})).json["valid"] is False
        assert (await client("POST", "/v1/jobs/none/validate", json={})).status == 404

    with_fleet(main)


@pytest.mark.parametrize(
    ("method", "path", "arguments", "status", "field"),
    [
        ("POST", "/v1/jobs", {"json": {"sql": SQL}}, 400, "name"),
        ("POST", "/v1/jobs", {"json": {"name": "a b", "sql": SQL}}, 400, "name"),
        ("POST", "/v1/jobs", {"json": {"name": "a"}}, 400, "sql"),
        ("POST", "/v1/jobs", {"json": {"name": "a", "sql": "x" * 65_537}}, 400, "sql"),
        ("POST", "/v1/jobs", {"json": {"name": "a", "sql": SQL, "seting": {}}}, 400, "seting"),
        ("POST", "/v1/jobs", {"json": {"name": "a", "sql": SQL, "settings": {"emit": 5}}}, 400, "settings.emit"),
        ("POST", "/v1/jobs", {"json": {"name": "a", "sql": SQL, "settings": []}}, 400, "settings"),
        ("POST", "/v1/jobs", {"json": {"name": "a", "sql": "SELEC 1"}}, 422, "sql"),
        ("POST", "/v1/jobs", {"json": []}, 400, "body"),
        ("POST", "/v1/jobs", {"data": b"{", "headers": {"Content-Type": "application/json"}}, 400, "body"),
        ("POST", "/v1/jobs", {"data": b"{}", "headers": {"Content-Type": "text/plain"}}, 415, "Content-Type"),
        ("POST", "/v1/jobs", {"data": b"x" * 3000, "headers": {"Content-Type": "application/json"}}, 413, "body"),
        ("POST", "/v1/jobs?x=1", {"json": {"name": "a", "sql": SQL}}, 400, "x"),
        ("GET", "/v1/jobs?limit=0", {}, 400, "limit"),
        ("GET", "/v1/jobs?state=sleeping", {}, 400, "state"),
        ("GET", "/v1/jobs?limit=1&limit=2", {}, 400, "limit"),
        ("GET", "/v1/jobs/a%20b", {}, 404, "name"),
        ("GET", "/v1/jobs/none", {}, 404, None),
        ("GET", "/v1/elsewhere", {}, 404, None),
        ("POST", "/v1/jobs/none/stop", {"json": {"drain": "yes"}}, 400, "drain"),
        ("PATCH", "/v1/jobs/none?start=soon", {"json": {}}, 400, "start"),
        ("DELETE", "/v1/jobs", {}, 405, None),
    ],
)  # fmt: skip
def test_what_is_refused_says_which_part(
    method: str, path: str, arguments: dict[str, Any], status: int, field: str | None
) -> None:
    async def main(client: Client) -> None:
        answer = await client(method, path, **arguments)
        assert (answer.status, answer.json.get("field")) == (status, field), answer.body
        assert answer.kind
        assert answer.json["node"] == client.fleet.nodes[0].ref.address
        assert not [request for request in client.fleet.nodes[0].asked if isinstance(request, SubmitJob)]

    with_fleet(main, options=ApiOptions(body_bytes_max=2048 if status == 413 else 100_000))


def test_a_fleet_with_a_token_answers_nobody_else() -> None:
    async def main(client: Client) -> None:
        for given in (None, "Bearer wrong", "Basic secret", "Bearer \xff", "Bearer", "secret"):
            refused = await client("GET", "/v1/jobs", headers={"Authorization": given} if given else {})
            assert (refused.status, refused.kind) == (401, "unauthorized")
            assert refused.headers["WWW-Authenticate"].startswith("Bearer")
        assert (await client("GET", "/metrics")).status == 401
        assert (await client("GET", "/healthz")).status == 200
        assert (await client("GET", "/v1/jobs", headers={"Authorization": "bearer secret"})).status == 200

    with_fleet(main, options=ApiOptions(token="secret"))  # fmt: skip


def test_a_node_reads_its_configuration_again() -> None:
    async def main(client: Client) -> None:
        assert (await client("POST", "/-/reload")).json == {
            "config": "0123456789abcdef", "changed": ["sources.access.paths"], "restart": ["node.listen"]
        }  # fmt: skip
        client.fleet.nodes[0].mistakes = [
            ConfigMistake("node.listn", "there is no such key", "/etc/node.toml", 2, "Did you mean listen?"),
            ConfigMistake("", "it is no TOML", "/etc/conf.d/a.toml", None, ""),
        ]
        refused = await client("POST", "/-/reload")
        assert (refused.status, refused.kind, refused.json["field"]) == (422, "configuration", "node.listn")
        assert refused.json["errors"] == [
            {"key": "node.listn", "problem": "there is no such key", "file": "/etc/node.toml", "line": 2,
             "advice": "Did you mean listen?"},
            {"problem": "it is no TOML", "file": "/etc/conf.d/a.toml"},
        ]  # fmt: skip
        assert (await client("GET", "/-/reload")).status == 405
        assert (await client("POST", "/-/reload?now=1")).status == 400
        for header in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            assert (await client("POST", "/-/reload", headers=header)).status == 403

    async def closed(client: Client) -> None:
        assert (await client("POST", "/-/reload")).status == 401

    with_fleet(main)
    with_fleet(closed, options=ApiOptions(token="secret"))


def test_pages_of_others_change_nothing_here() -> None:
    async def main(client: Client) -> None:
        own = client.running.url()
        body = {"name": "hot", "sql": SQL}
        origins = ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://["})
        for header in (*origins, {"Sec-Fetch-Site": "cross-site"}):
            refused = await client("POST", "/v1/jobs", json=body, headers=header)
            assert (refused.status, refused.kind) == (403, "forbidden")
        rebound = await client("GET", "/v1/jobs", headers={"Host": "evil.example:7117"})
        assert (rebound.status, rebound.json["field"]) == (403, "Host")
        assert (await client("POST", "/v1/jobs", json=body, headers={"Origin": own})).status == 201
        for host in ("localhost", "127.0.0.1:1", "[::1]:7117"):
            assert (await client("GET", "/v1/jobs", headers={"Host": host})).status == 200
        answer = await client("GET", "/v1/jobs", headers={"Origin": "http://evil.example"})
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert answer.headers["X-Content-Type-Options"] == "nosniff"

    with_fleet(main)


def test_a_core_that_does_not_answer_and_one_that_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(client: Client) -> None:
        client.fleet.nodes[0].silent = True
        late = await client("GET", "/v1/jobs/hot")
        assert (late.status, late.kind, late.headers["Retry-After"]) == (504, "timeout", "1")
        logged: list[str] = []
        monkeypatch.setattr(api_guard.log, "error", lambda text, *_, **__: logged.append(text))
        monkeypatch.setattr(client.fleet.nodes[0], "jobs", lambda: 1 / 0)
        broken = await client("GET", "/v1/jobs")
        assert (broken.status, broken.kind, len(logged)) == (500, "internal", 1)
        assert "division" not in broken.json["detail"]

    with_fleet(main)


def test_requests_have_a_number() -> None:
    async def main(client: Client) -> None:
        held, asked = asyncio.Event(), asyncio.Event()
        node = client.fleet.nodes[0]
        ask = node.ask

        async def slow(key: bytes, request: Any) -> Any:
            asked.set()
            await held.wait()
            return await ask(key, request)

        node.ask = slow  # type: ignore[method-assign]
        first = asyncio.create_task(client("GET", "/v1/jobs/hot"))
        await asked.wait()
        second = await client("GET", "/v1/jobs/hot")
        assert (second.status, second.kind) == (429, "too-many")
        assert (await client("GET", "/healthz")).status == 200
        held.set()
        assert (await first).status == 404

    with_fleet(main, options=ApiOptions(requests_max=1))


def test_requests_have_a_time() -> None:
    async def main(client: Client) -> None:
        async def silent(key: bytes, request: Any) -> Any:
            await asyncio.Event().wait()

        client.fleet.nodes[0].ask = silent  # type: ignore[method-assign]
        assert (await client("GET", "/v1/jobs/hot")).status == 504

    with_fleet(main, options=ApiOptions(request_s=0.05))


def test_how_the_node_is() -> None:
    async def main(client: Client) -> None:
        assert (await client("GET", "/readyz")).json == {"status": "ready"}
        assert (await client("HEAD", "/readyz")).status == 200
        client.fleet.nodes[0].faults_now = ["the disk is full", "no peer answers"]
        fault = await client("GET", "/readyz")
        assert (fault.status, fault.json["detail"]) == (503, "the disk is full; no peer answers")
        assert (await client("GET", "/healthz")).status == 200
        metrics = await client("GET", "/metrics")
        assert metrics.headers["Content-Type"] == "text/plain; version=0.0.4"
        assert (await client("GET", "/v1/problems/stale")).json["status"] == 412
        assert (await client("GET", "/v1/problems/none")).status == 404
        counters = client.running.apis[0].counters()
        assert counters["http_requests_total"]["503"] == 1
        assert counters["http_requests_active"] == 0

    with_fleet(main)


def test_other_handlers_of_the_port_guard_themselves() -> None:
    async def main(client: Client) -> None:
        assert (await client("GET", "/v1/other")).body == b"other"
        assert (await client("GET", "/v1/jobs")).status == 401

    async def other(_: web.Request) -> web.Response:
        return web.Response(text="other")

    class WithOther(Running):
        def made(self, app: web.Application) -> None:
            app.router.add_get("/v1/other", other)

    with_fleet(main, options=ApiOptions(token="secret"), running=WithOther)


def test_the_page_is_served_to_anybody_and_may_load_nothing_from_elsewhere() -> None:
    async def main(client: Client) -> None:
        page = await client("GET", "/")
        assert page.body.startswith(b"<!doctype html>")
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        script = await client("GET", "/page/app.js")
        assert script.headers["Content-Type"].startswith("text/javascript")
        again = await client("GET", "/page/app.js", headers={"If-None-Match": script.headers["ETag"]})
        assert (again.status, again.body) == (304, b"")
        assert (await client("GET", "/page/../api.py")).status == 404
        assert (await client("GET", "/page/nothing.js")).status == 404

    with_fleet(main, options=ApiOptions(token="secret"))
