"""TLS in front of a server that speaks none: certificates of an authority of the tests' own, and a door on loopback."""

from __future__ import annotations

import contextlib
import inspect
import ipaddress
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

POSTGRES_ASKS = 8
"""Bytes by which a client of PostgreSQL asks for TLS; ``S`` says yes."""


class Authority:
    """Signs certificates; its own is in ``file``."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name, self._key = folder, name, ec.generate_private_key(ec.SECP256R1())
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(_pem(self._signed(name, self._key, x509.BasicConstraints(ca=True, path_length=None))))

    def context_for(self, address: str) -> ssl.SSLContext:
        """Return what a server needs whose certificate is for this address."""
        key, file = ec.generate_private_key(ec.SECP256R1()), self._folder / f"{self._name}-{address}.pem"
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        file.write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain) + _pem(self._signed("db", key, names)))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _signed(self, name: str, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType) -> x509.Certificate:
        now, named = datetime.now(UTC), x509.NameAttribute
        authority = isinstance(extension, x509.BasicConstraints)
        built = x509.CertificateBuilder().add_extension(extension, critical=authority)
        # Python 3.13 and later ask for what the standard asks for.
        built = built.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        built = built.add_extension(issuer, critical=False)
        if authority:
            signs = dict.fromkeys(inspect.signature(x509.KeyUsage).parameters, False)
            built = built.add_extension(x509.KeyUsage(**signs | {"key_cert_sign": True}), critical=True)
        built = built.subject_name(x509.Name([named(NameOID.COMMON_NAME, name)])).public_key(key.public_key())
        built = built.issuer_name(x509.Name([named(NameOID.COMMON_NAME, self._name)]))
        built = built.serial_number(x509.random_serial_number())
        built = built.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        return built.sign(self._key, hashes.SHA256())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


@contextmanager
def door(context: ssl.SSLContext, behind: str | tuple[str, int], *, postgres: bool = False) -> Iterator[int]:
    """Give the port of a door with TLS to a server: the path of a socket, or host and port. Ends all connections."""
    opened, threads = list[socket.socket](), list[Thread]()

    def run(act: Callable[..., None], *given: socket.socket) -> Thread:
        thread = Thread(target=act, args=given, daemon=True)
        thread.start()
        threads.append(thread)
        return thread

    def let_in(plain: socket.socket) -> None:
        with contextlib.suppress(OSError), plain:
            if postgres and len(plain.recv(POSTGRES_ASKS)) == POSTGRES_ASKS:
                plain.sendall(b"S")
            family = socket.AF_UNIX if isinstance(behind, str) else socket.AF_INET
            with context.wrap_socket(plain, server_side=True) as inner, socket.socket(family) as server:
                opened.append(inner)
                server.connect(behind)
                back = run(pump, server, inner)
                pump(inner, server)
                back.join()

    def listen() -> None:
        with contextlib.suppress(OSError):
            while True:
                run(let_in, listener.accept()[0])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        run(listen)
        try:
            yield listener.getsockname()[1]
        finally:
            for one in (listener, *opened):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join(10)


def pump(source: socket.socket, target: socket.socket) -> None:
    """Pass on what comes, until one of them ends; then both end."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
