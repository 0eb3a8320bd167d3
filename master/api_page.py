"""The live page: a few static files beside this module, read once. They know nothing; the page asks the API like anybody."""

from __future__ import annotations

from hashlib import sha256
from importlib import resources

from aiohttp import web

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)


class Page:
    """Handlers of `/` and `/page/...`; open to whoever reaches the port, for there is nothing of the fleet in them."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, str, str]] = {}
        for file in resources.files("master").joinpath("page").iterdir():
            suffix = file.name.rpartition(".")[2]
            if suffix in _TYPES:
                data = file.read_bytes()
                self._files[file.name] = data, _TYPES[suffix], f'"{sha256(data).hexdigest()[:16]}"'

    async def index(self, request: web.Request) -> web.Response:
        return self._file(request, "index.html")

    async def file(self, request: web.Request) -> web.Response:
        return self._file(request, request.match_info["file"])

    def _file(self, request: web.Request, name: str) -> web.Response:
        if name not in self._files:
            raise web.HTTPNotFound
        data, content_type, tag = self._files[name]
        headers = {"ETag": tag, "Cache-Control": "no-cache", "Content-Security-Policy": _POLICY}
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=data, content_type=content_type, charset="utf-8", headers=headers)
