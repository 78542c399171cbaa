"""Static files from memory, compressed once: a browser downloads and caches each version once."""

import gzip
from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

_FOLDER: Final = files(__package__) / "static"
_TYPES: Final[Mapping[str, str]] = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "woff2": "font/woff2",
}
#: A URL names the version of its file.
_FOREVER: Final = "public, max-age=31536000, immutable"


class _File(NamedTuple):
    media_type: str
    plain: bytes
    packed: bytes | None
    version: str


class StaticFiles:
    """The files of `static` that browsers get."""

    def __init__(self) -> None:
        self._files = {
            each.name: _read(each.name, each.read_bytes())
            for each in _FOLDER.iterdir()
            if each.is_file() and each.name.rpartition(".")[2] in _TYPES
        }

    def url(self, name: str) -> str:
        """Return the URL of a file in its present version."""
        return f"/ui/static/{name}?v={self._files[name].version}"

    def answer(self, name: str, request: Request) -> Response:
        """Return the file, or 404."""
        found = self._files.get(name)
        if found is None:
            return Response(status_code=404)
        headers = {"cache-control": _FOREVER, "vary": "accept-encoding"}
        if found.packed is None or "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(found.plain, media_type=found.media_type, headers=headers)
        headers["content-encoding"] = "gzip"
        return Response(found.packed, media_type=found.media_type, headers=headers)


def _read(name: str, content: bytes) -> _File:
    ending = name.rpartition(".")[2]
    packed = None if ending == "woff2" else gzip.compress(content, 9, mtime=0)
    return _File(_TYPES[ending], content, packed, sha256(content).hexdigest()[:12])
