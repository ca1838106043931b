# SPDX-License-Identifier: GPL-2.0
"""Serves the metrics by HTTP: one thread, one request at a time."""

from __future__ import annotations

import re
import socket
import socketserver
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer

from ..errors import UsageError
from .collect import Collector
from .metrics import Format

#: Seconds that a peer may leave the server waiting.
_PATIENCE = 5.0
#: Seconds between two looks at the trace events.
_PUMP = 0.25

_INDEX = b'<!DOCTYPE html><title>nfsrdma</title><a href="/metrics">metrics</a>\n'
_HTML = "text/html; charset=utf-8"

#: The parameter of a media type in the header `Accept` that is its weight.
_WEIGHT = re.compile(r"q=([\d.]+)", re.ASCII)


def chosen(accept: str) -> Format:
    """Returns the format that a reader prefers, and the older one if it names none."""
    weights = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    # A regular expression for the whole text can take the square of its length.
    for entry in accept.split(","):
        kind, *parameters = (word.strip() for word in entry.split(";"))
        if kind in weights:
            weights[kind] = max(weights[kind], _weight(parameters))
    wanted = weights["application/openmetrics-text"]
    return Format.OPENMETRICS if wanted and wanted >= weights["text/plain"] else Format.TEXT


def _weight(parameters: list[str]) -> float:
    found = next(filter(None, map(_WEIGHT.fullmatch, parameters)), None)
    try:
        return float(found[1]) if found else 1.0
    except ValueError:
        return 0.0


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server
    timeout = _PATIENCE
    server_version = "nfsrdma"
    sys_version = ""

    def do_GET(self) -> None:
        """Answers with the metrics, or with a page that names them."""
        path = self.path.partition("?")[0]
        if path == "/metrics":
            form = chosen(self.headers.get("Accept", ""))
            text = self.server.collector.collect().text(form)
            self._answer(form.value, text.encode())
        elif path == "/":
            self._answer(_HTML, _INDEX)
        else:
            self.send_error(HTTPStatus.NOT_FOUND, "the metrics are at /metrics")

    def _answer(self, kind: str, body: bytes) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, *_told: object) -> None:
        """Writes nothing: a reader comes again and again."""


class Server(HTTPServer):
    """The server of one address."""

    def __init__(self, where: tuple[str, int], collector: Collector) -> None:
        """Listens.

        # Errors
        `UsageError`: this is not possible, and why.
        """
        self.collector = collector
        self.address_family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
        try:
            super().__init__(where, _Handler)
        except OSError as error:
            raise UsageError(
                f"cannot listen on {written(where)}: {error.strerror}; choose another address or"
                " port with --listen"
            ) from error

    def server_bind(self) -> None:
        """Binds, and does not ask the resolver for a name as the library would."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    def service_actions(self) -> None:
        """Takes trace events, between requests."""
        self.collector.pump()

    def handle_error(self, *_told: object) -> None:
        """Tells of an error in one line. A reader that has gone is no error."""
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            print(f"nfsrdma: a request has failed: {error!r}", file=sys.stderr)

    def run(self) -> None:
        """Serves until the process ends."""
        self.serve_forever(poll_interval=_PUMP)


def written(where: tuple[str, int]) -> str:
    """Returns an address and a port as text."""
    address, port = where
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
