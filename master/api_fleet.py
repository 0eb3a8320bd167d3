"""What the fleet is: nodes, sources, the tree of a job; and how this node is."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from master import job_documents as documents
from master.api_forward import Forwarder
from master.api_guard import json_response
from master.api_jobs import job_name
from master.api_options import ApiOptions
from master.api_results import METRICS_TYPE
from master.job_views import (
    names_of,
    node_document,
    node_notice_document,
    node_view_document,
    source_document,
    vertex_document,
)
from master.openapi import openapi
from master.problems import KINDS, TYPES_AT, Problem, problem_of_configuration
from master.requests import DescribeNode, DescribeVertex, NodeView, VertexView
from master.service import NodeService, NotReloaded
from srt.automaton import Ref
from srt.ids import ID_BYTES, job_key

ANSWER_BYTES_MAX = 8 << 20
_NO_KEY = bytes(ID_BYTES)


class FleetHandlers:
    """Nodes, sources, trees, and what describes the API itself."""

    def __init__(self, service: NodeService, options: ApiOptions, forwarder: Forwarder) -> None:
        self._service, self._options, self._forwarder = service, options, forwarder
        self._asking = asyncio.Semaphore(32)
        """Vertices that are being asked."""

    # nodes and sources

    async def nodes(self, request: web.Request) -> web.StreamResponse:
        documents.only(request.query.items())
        notices = sorted(self._service.nodes(), key=lambda notice: (notice.name, notice.ref))
        return json_response({"nodes": [node_notice_document(notice) for notice in notices]})

    async def node(self, request: web.Request) -> web.StreamResponse:
        """One node, from itself; by its name, its address or the digits of its id."""
        documents.only(request.query.items())
        wanted = request.match_info["node"]
        notices = [notice for notice in self._service.nodes() if not notice.left]
        ref = self._service.ref
        if wanted not in ("self", ref.address, ref.id.hex()):
            for notice in notices:
                if wanted in (notice.name, notice.ref.address, notice.ref.id.hex()):
                    ref = notice.ref
                    break
            else:
                raise Problem("unknown", f"no node is known by {wanted[:80]!r}", field="node")
        if ref.id != self._service.ref.id:
            return await self._forwarder.hand_on(request, ref)
        view: NodeView = await self._service.ask(_NO_KEY, DescribeNode())
        jobs = {job_key(notice.name).hex(): notice.name for notice in self._service.jobs()}
        return json_response(node_view_document(view, names_of(notices), jobs))

    async def sources(self, request: web.Request) -> web.StreamResponse:
        documents.only(request.query.items())
        notices = self._service.nodes()
        schemas = self._service.schemas()
        return json_response({"sources": [source_document(name, schemas[name], notices) for name in sorted(schemas)]})

    # the tree of a job

    async def tree(self, request: web.Request) -> web.StreamResponse:
        name = job_name(request)
        query = documents.only(request.query.items(), "depth", "nodes", "within", "here")
        deepest, most = self._options.tree_depth_max, self._options.tree_nodes_max
        depth = documents.whole(query.get("depth"), "depth", deepest, 0, deepest)
        nodes = documents.whole(query.get("nodes"), "nodes", most, 1, most)
        longest_ms = round(self._options.tree_s * 1000)
        within_ms = documents.whole(query.get("within"), "within", longest_ms, 1, longest_ms)

        async def work() -> web.StreamResponse:
            return json_response(await self._vertex(name, depth, nodes, within_ms))

        if "here" in query and documents.flag(query["here"], "here"):
            return await work()
        return await self._forwarder.at_master(request, name, work)

    async def _vertex(self, name: str, depth: int, nodes: int, within_ms: int) -> dict[str, Any]:
        """The vertex of this node, with what is below it as the nodes there tell it. `nodes` is how many may be shown: each
        child gets an equal share of them, and less time, so that it can tell who did not answer."""
        view: VertexView = await self._service.ask(job_key(name), DescribeVertex())
        document = vertex_document(view, names_of(self._service.nodes()))
        below = [child for child in view.children if child.id != self._service.ref.id]
        shown = below[: nodes - 1] if depth > 0 else []
        share = (nodes - 1) // len(shown) if shown else 0
        document["children"] = await asyncio.gather(
            *(self._below(name, child, depth - 1, share, within_ms) for child in shown)
        )
        hidden = sum(child.get("hidden", 0) for child in document["children"])
        return {**document, "hidden": hidden + len(below) - len(shown)}

    async def _below(self, name: str, child: Ref, depth: int, nodes: int, within_ms: int) -> dict[str, Any]:
        """A child as it tells of itself, or why it does not."""
        path = f"/v1/jobs/{name}/tree?here=true&depth={depth}&nodes={nodes}&within={max(within_ms * 3 // 4, 1)}"
        problem = "it does not answer in time"
        async with self._asking:
            try:
                async with self._forwarder.asked(child, path, within_ms / 1000) as answer:
                    body = await answer.content.read(ANSWER_BYTES_MAX)
                    while not answer.content.at_eof() and len(body) < ANSWER_BYTES_MAX:
                        body += await answer.content.read(ANSWER_BYTES_MAX - len(body))
                    document: dict[str, Any] = msgspec.json.decode(body, type=dict)
                    if answer.status == 200 and "children" in document:
                        return document
                    problem = str(document.get("detail"))[:200]
            except TimeoutError:
                pass
            except (aiohttp.ClientError, OSError, msgspec.MsgspecError) as error:
                problem = f"it cannot be asked: {type(error).__name__}"
        names = names_of(self._service.nodes())
        unknown: dict[str, Any] = {"role": None, "agents": None, "frames_in": None, "frames_out": None, "children": []}
        return {**node_document(child, names), **unknown, "problem": problem, "hidden": 0}

    # this node

    async def health(self, request: web.Request) -> web.StreamResponse:
        return json_response({"status": "ok"})

    async def ready(self, request: web.Request) -> web.StreamResponse:
        faults = list(self._service.faults())
        if faults:
            raise Problem("not-ready", "; ".join(faults))
        return json_response({"status": "ready"})

    async def reload(self, request: web.Request) -> web.StreamResponse:
        documents.only(request.query.items())
        try:
            done = await self._service.reload()
        except NotReloaded as error:
            raise problem_of_configuration(error) from error
        return json_response(done._asdict())

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=self._service.metrics().encode(), headers={"Content-Type": METRICS_TYPE})

    async def openapi(self, request: web.Request) -> web.StreamResponse:
        return json_response(openapi())

    async def problem(self, request: web.Request) -> web.StreamResponse:
        """What the `type` of a problem means."""
        kind = request.match_info["kind"]
        if kind not in KINDS:
            raise Problem("not-found", f"there is no kind of problem {kind[:40]!r}")
        status, title, retry_s = KINDS[kind]
        return json_response({"type": TYPES_AT + kind, "status": status, "title": title, "retry": retry_s > 0})


