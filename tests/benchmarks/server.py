"""A server process that is cheap enough not to be the bottleneck: N ports, one epoll loop, canned answers.

``python -m tests.benchmarks.server N [delay_s] [hung]`` prints the ports as a JSON list, and serves until its input ends.
The first port is a router that lists the others; with ``hung``, the last worker never answers.
"""

from __future__ import annotations

import heapq
import json
import select
import socket
import sys
import time

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def _is_whole(data: bytes) -> bool:
    head, blank, body = data.partition(b"\r\n\r\n")
    if not blank:
        return False
    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    return len(body) >= length


def serve(workers: int, delay_s: float, has_hung: bool) -> None:
    """Serve until standard input ends."""
    listeners: dict[int, tuple[int, socket.socket]] = {}
    ports = []
    poll = select.epoll()
    for number in range(workers + 1):
        listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        listener.setblocking(False)
        listeners[listener.fileno()] = (number, listener)
        ports.append(listener.getsockname()[1])
        poll.register(listener, select.EPOLLIN)
    body = json.dumps({"workers": [{"url": f"http://127.0.0.1:{port}"} for port in ports[1:]]}).encode()
    listing = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body
    open_: dict[int, tuple[int, socket.socket, bytearray]] = {}
    due: list[tuple[float, int]] = []
    poll.register(sys.stdin.fileno(), select.EPOLLIN)
    print(json.dumps(ports), flush=True)

    def answer(fd: int) -> None:
        number, sock, _ = open_.pop(fd)
        poll.unregister(fd)
        try:
            sock.sendall(listing if number == 0 else OK)
        except OSError:
            pass  # the client went away
        sock.close()

    while True:
        wait = max(0.0, due[0][0] - time.monotonic()) if due else -1
        for fd, _ in poll.poll(wait):
            if fd == sys.stdin.fileno():
                return
            if fd in listeners:
                number, listener = listeners[fd]
                while True:
                    try:
                        sock, _peer = listener.accept()
                    except BlockingIOError:
                        break
                    sock.setblocking(False)
                    open_[sock.fileno()] = (number, sock, bytearray())
                    poll.register(sock, select.EPOLLIN)
                continue
            number, sock, got = open_[fd]
            try:
                data = sock.recv(65536)
            except OSError:
                data = b""
            got += data
            if not data:
                open_.pop(fd)
                poll.unregister(fd)
                sock.close()
            elif _is_whole(got) and not (has_hung and number == workers):
                if number and delay_s:
                    heapq.heappush(due, (time.monotonic() + delay_s, fd))
                else:
                    answer(fd)
        while due and due[0][0] <= time.monotonic():
            fd = heapq.heappop(due)[1]
            if fd in open_:
                answer(fd)


if __name__ == "__main__":
    serve(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.0, "hung" in sys.argv[3:])
