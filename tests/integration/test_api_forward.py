"""Any node answers: requests find the master of their job, and failures on the way are told as such."""

from __future__ import annotations

import asyncio
import socket

import msgspec

from master.api_options import ApiOptions
from srt.automaton import Ref
from srt.ids import job_key
from tests.memory_fleet import SQL, Client, with_fleet

KEY = job_key("hot")


def test_every_node_answers_and_says_who_did() -> None:
    async def main(client: Client) -> None:
        await client.submit(number=0)
        leader = client.fleet.nodes[client.fleet.leader(KEY)].ref.address
        for number in range(3):
            shown = await client("GET", "/v1/jobs/hot", number)
            assert (shown.status, shown.headers["Elfstream-Node"]) == (200, leader)
            changed = await client(
                "PATCH", "/v1/jobs/hot", number, json={"settings": {"emit": "1s"}}, headers={"If-Match": f'"{number + 1}"'}
            )
            assert (changed.status, changed.headers["ETag"]) == (200, f'"{number + 2}"')
            missing = await client("PATCH", "/v1/jobs/hot", number, json={})
            assert (missing.status, missing.json["node"]) == (428, leader)
        made = await client("POST", "/v1/jobs", 2, json={"name": "other", "sql": SQL})
        assert (made.status, made.headers["Location"]) == (201, "/v1/jobs/other")
        assert (await client("DELETE", "/v1/jobs/other", 1)).status == 204

    with_fleet(main, 3, ApiOptions(token="")) # fmt: skip


def test_nodes_bring_the_token_to_each_other() -> None:
    async def main(client: Client) -> None:
        for number in range(3):
            answer = await client("GET", "/v1/jobs/none", number, headers={"Authorization": "Bearer t"})
            assert answer.status == 404
            assert (await client("GET", "/v1/jobs/none", number)).status == 401

    with_fleet(main, 3, ApiOptions(token="t"))


def test_a_request_follows_a_job_that_moved_and_no_further() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        # Everybody thinks that it is the next one.
        for number, node in enumerate(client.fleet.nodes):
            ask, following = node.ask, client.fleet.nodes[(number + 1) % 3].ref

            async def misled(key: bytes, request: object, ask: object = ask, following: Ref = following) -> object:
                found = await ask(key, request)  # type: ignore[operator]
                return found.__class__(following, True) if type(request).__name__ == "FindMaster" else found

            node.ask = misled  # type: ignore[method-assign]
        lost = await client("GET", "/v1/jobs/hot")
        assert (lost.status, lost.kind) == (508, "loop")

    with_fleet(main, 3)


def test_no_master_is_known() -> None:
    async def main(client: Client) -> None:
        client.fleet.leaderless = True
        for method, path, arguments in (
            ("GET", "/v1/jobs/hot", {}),
            ("GET", "/v1/jobs/hot/results/stream", {}),
            ("POST", "/v1/jobs", {"json": {"name": "hot", "sql": SQL}}),
        ):
            answer = await client(method, path, **arguments)
            assert (answer.status, answer.kind, answer.headers["Retry-After"]) == (503, "no-master", "1")
            assert "hot" in answer.json["detail"]

    with_fleet(main)


def test_the_master_cannot_be_reached() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        leader = client.fleet.leader(KEY)
        other = 1 - leader
        await client.running.kill(leader)
        answer = await client("GET", "/v1/jobs/hot", other)
        assert (answer.status, answer.kind, answer.headers["Retry-After"]) == (503, "unreachable", "1")
        assert client.fleet.nodes[leader].ref.address in answer.json["detail"]
        # Somebody else leads from now on.
        client.fleet.leaders[KEY] = other
        assert (await client("GET", "/v1/jobs/hot", other)).status == 200

    with_fleet(main, 2)


def test_a_master_that_takes_connections_and_says_nothing() -> None:
    async def main(client: Client) -> None:
        with socket.create_server(("127.0.0.1", 0)) as deaf:
            host, port = deaf.getsockname()
            client.fleet.nodes[1].ref = Ref(bytes([16]) * 16, f"{host}:{port}", 1)
            client.fleet.leaders[KEY] = 1
            answer = await client("GET", "/v1/jobs/hot")
            assert (answer.status, answer.kind) == (504, "timeout")

    with_fleet(main, 2, ApiOptions(request_s=0.3))


def test_an_answer_that_breaks_off_is_not_whole_here_either() -> None:
    async def main(client: Client) -> None:
        async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(half, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        client.fleet.nodes[1].ref = Ref(bytes([16]) * 16, f"{host}:{port}", 1)
        client.fleet.leaders[KEY] = 1
        broken = False
        try:
            await client("GET", "/v1/jobs/hot")
        except Exception as error:
            broken = type(error).__name__ in ("ClientPayloadError", "ServerDisconnectedError", "ClientOSError")
        assert broken
        server.close()

    with_fleet(main, 2)


def test_hops_from_outside_are_bounded_and_read_with_care() -> None:
    async def main(client: Client) -> None:
        client.fleet.leaders[KEY] = 1
        for hops, status in (("3", 508), ("999", 508), ("x", 400), ("-1", 400), ("99999", 400), ("2", 404)):
            assert (await client("GET", "/v1/jobs/hot", headers={"Elfstream-Hops": hops})).status == status

    with_fleet(main, 2)


def test_trees_are_put_together_from_the_nodes() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        nodes = client.fleet.nodes
        client.fleet.leaders[KEY] = 0
        gone = Ref(b"\xee" * 16, "127.0.0.1:1", 1)
        nodes[0].children = (nodes[1].ref, nodes[2].ref, gone)
        nodes[1].children = (nodes[3].ref,)
        tree = (await client("GET", "/v1/jobs/hot/tree", 3)).json
        assert (tree["name"], tree["role"], tree["hidden"]) == ("web1", "root", 0)
        first, second, third = tree["children"]
        assert (first["name"], [child["name"] for child in first["children"]]) == ("web2", ["web4"])
        assert (second["name"], second["children"]) == ("web3", [])
        assert (third["address"], third["role"]) == ("127.0.0.1:1", None)
        assert "cannot be asked" in third["problem"]
        flat = (await client("GET", "/v1/jobs/hot/tree?depth=1")).json
        assert (flat["hidden"], flat["children"][0]["children"], flat["children"][0]["hidden"]) == (1, [], 1)
        few = (await client("GET", "/v1/jobs/hot/tree?nodes=2")).json
        assert (len(few["children"]), few["hidden"]) == (1, 3)
        below = (await client("GET", "/v1/jobs/hot/tree?here=true", 1)).json
        assert below["name"] == "web2"
        # Two nodes that hold each other for a child end at the depth.
        nodes[1].children = (nodes[0].ref,)
        circle = (await client("GET", "/v1/jobs/hot/tree?depth=3")).json
        assert circle["hidden"] > 0
        assert (await client("GET", "/v1/jobs/hot/tree?depth=99")).status == 400
        assert (await client("GET", "/v1/jobs/none/tree")).status == 404

    with_fleet(main, 4)


def test_a_vertex_that_does_not_answer_is_named_by_its_parent() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        nodes = client.fleet.nodes
        client.fleet.leaders[KEY] = 0
        nodes[0].children, nodes[1].children = (nodes[1].ref,), (nodes[2].ref,)
        held = asyncio.Event()

        async def hold(key: bytes, request: object) -> object:
            await held.wait()
            raise TimeoutError

        nodes[2].ask = hold  # type: ignore[assignment, method-assign]
        tree = (await client("GET", "/v1/jobs/hot/tree")).json
        (second,) = tree["children"]
        (third,) = second["children"]
        assert (second["problem"], third["problem"]) == (None, "it does not answer in time")
        held.set()

    with_fleet(main, 3, ApiOptions(tree_s=4.0))


def test_nodes_and_sources() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        listed = (await client("GET", "/v1/nodes")).json["nodes"]
        assert [(node["name"], node["kind"], node["sources"]) for node in listed] == [
            ("web1", "agent", ["access"]), ("web2", "agent", ["access"]),
        ]  # fmt: skip
        for wanted in ("web2", listed[1]["address"], listed[1]["id"]):
            shown = await client("GET", f"/v1/nodes/{wanted}")
            assert (shown.json["name"], shown.headers["Elfstream-Node"]) == ("web2", listed[1]["address"])
        leader = client.fleet.leader(KEY)
        led = (await client("GET", "/v1/nodes/self", leader)).json["masters"]
        assert led == [{"key": KEY.hex(), "job": "hot"}]
        assert (await client("GET", "/v1/nodes/web9")).status == 404
        (source,) = (await client("GET", "/v1/sources")).json["sources"]
        assert (source["name"], source["agents"]) == ("access", ["web1", "web2"])
        assert {"name": "status", "type": "BIGINT"} in source["fields"]

    with_fleet(main, 2)


def test_a_job_that_gossip_knows_is_there_though_its_master_does_not_know_it_yet() -> None:
    """A node that has just become the closest: whoever asked would have thought that the job was removed."""

    async def main(client: Client) -> None:
        await client.submit()
        known = client.fleet.nodes[0].jobs()
        client.fleet.jobs.clear()
        assert (await client("GET", "/v1/jobs/hot")).kind == "unknown"
        client.fleet.nodes[0].jobs = lambda: known  # type: ignore[method-assign]
        refused = await client("GET", "/v1/jobs/hot")
        assert (refused.status, refused.kind, refused.headers["Retry-After"]) == (503, "no-master", "1")
        gone = [notice.__class__(*(*msgspec.structs.astuple(notice)[:2], "removed", 1, 0, 0)) for notice in known]
        client.fleet.nodes[0].jobs = lambda: gone  # type: ignore[method-assign]
        assert (await client("GET", "/v1/jobs/hot")).kind == "unknown"

    with_fleet(main)
