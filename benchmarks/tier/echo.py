"""The other end of the bare socket: sends as many bytes as it is asked for, or takes as many and says so."""

from __future__ import annotations

import socket
import threading


def serve(connection: socket.socket) -> None:
    """Serve one client: `g` or `s`, then a length of eight bytes."""
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        value = memoryview(bytearray(64 * 1024 * 1024))
        head = bytearray(9)
        while connection.recv_into(head, 9, socket.MSG_WAITALL) == 9:
            size = int.from_bytes(head[1:], "little")
            if head[:1] == b"g":
                connection.sendall(value[:size])
            else:
                connection.recv_into(value[:size], size, socket.MSG_WAITALL)
                connection.sendall(b"k")


def main() -> None:
    """Print the port, then serve until killed."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
