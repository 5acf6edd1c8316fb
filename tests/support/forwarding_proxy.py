"""A server in front of another one that changes requests on their way: for programs whose requests cannot be changed.

    with ForwardingProxy(address, change) as proxy:
        ...  # point the program at proxy.base_url

`change` gets each JSON body and may change it in place. Replies are passed on as they come, byte for byte.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

from support.waiting import PATIENCE_S


class ForwardingProxy:
    """Forwards every POST to `address`; `bodies` are the requests as they arrived."""

    def __init__(self, address: str, change: Callable[[dict[str, Any]], None]) -> None:
        self.bodies: list[dict[str, Any]] = []
        upstream = urlsplit(address)
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                proxy.bodies.append(json.loads(json.dumps(body)))
                change(body)
                connection = http.client.HTTPConnection(
                    upstream.hostname or "", upstream.port, timeout=PATIENCE_S
                )
                try:
                    connection.request(
                        "POST", self.path, json.dumps(body), {"Content-Type": "application/json"}
                    )
                    self._pass_on(connection.getresponse())
                finally:
                    connection.close()

            def _pass_on(self, reply: http.client.HTTPResponse) -> None:
                self.send_response(reply.status)
                self.send_header("Content-Type", reply.headers.get("Content-Type", ""))
                self.send_header("Connection", "close")
                self.end_headers()
                while piece := reply.read1(65536):
                    self.wfile.write(piece)
                    self.wfile.flush()

            def log_message(self, *_arguments: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
