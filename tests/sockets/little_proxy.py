"""A little HTTP proxy on loopback: passes plain requests on, and makes tunnels; every name means this machine to it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from scripted import Asked, Scripted, read_request


class Proxy:
    """What a proxy was asked; `url` is where it is."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.url = ""

    def serve(self, client: socket.socket) -> bool:
        """Serve one connection, to its end."""
        asked = read_request(client)
        self.asked.append(asked)
        if asked.method == "CONNECT":
            port = int(asked.target.rpartition(":")[2])
            begin = b""
        else:
            url = urlsplit(asked.target)
            port = url.port or 80
            kept = b"".join(line + b"\r\n" for line in asked.head.split(b"\r\n")[1:] if line and not line.lower().startswith(b"proxy-"))
            begin = f"{asked.method} {url.path} HTTP/1.1\r\n".encode() + kept + b"\r\n" + asked.body
        with socket.create_connection(("127.0.0.1", port), timeout=30.0) as server:
            if begin:
                server.sendall(begin)
            else:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                threading.Thread(target=pump, args=(client, server), daemon=True).start()
            pump(server, client)
        return True


def pump(source: socket.socket, sink: socket.socket) -> None:
    """Pass everything on until the source ends, then end the sink."""
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy() -> Iterator[Proxy]:
    """Run one."""
    made = Proxy()
    with Scripted(on_accept=made.serve) as server:
        made.url = server.url
        yield made
