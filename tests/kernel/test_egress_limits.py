"""The one door out: nothing that comes in is without limit, and TLS is checked by name."""

from __future__ import annotations

import gzip
import socket
import ssl
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kaizen.kernel.clock import now
from kaizen.kernel.egress import (
    Network,
    Refused,
    Reply,
    connect,
    decompress,
    fetch,
)
from kaizen.kernel.errors import Invalid, TooLarge, Unavailable
from tests.websites import Asked, Served, Site, listener, website


@pytest.fixture
def site(settings: Any) -> Iterator[Site]:
    with website() as running:
        settings.EGRESS_ALLOW = (running.allowed,)
        yield running


def get(url: str, **options: Any) -> Reply:
    return fetch(url, **({"max_bytes": 100_000, "timeout": 5.0} | options))


class Names:
    """A resolver that gives its answers one after the other, the last one for ever."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    def __call__(self, host: str, port: int) -> list[str]:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


# --- limits


def test_a_body_of_exactly_the_limit_is_taken(site: Site) -> None:
    site.serve("/", b"x" * 1000)
    assert len(get(f"{site.origin}/", max_bytes=1000).body) == 1000


def test_an_announced_size_above_the_limit_is_refused_unread(site: Site) -> None:
    site.pages["/"] = Served(headers={"Content-Length": str(10**12)})
    with pytest.raises(TooLarge, match="1,000 bytes"):
        get(f"{site.origin}/", max_bytes=1000)


def test_a_body_without_a_size_is_cut_off_at_the_limit(site: Site) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 10**9:
            sent += 10_000
            yield b"x" * 10_000

    site.pages["/"] = Served(drip=endless)
    with pytest.raises(TooLarge):
        get(f"{site.origin}/", max_bytes=50_000)
    assert sent < 50_000_000


def test_a_bomb_is_not_unpacked(site: Site) -> None:
    bomb = gzip.compress(b"0" * 30_000_000)
    assert len(bomb) < 100_000
    site.serve("/", bomb, headers={"Content-Encoding": "gzip"})
    with pytest.raises(TooLarge):
        get(f"{site.origin}/")


def test_a_compression_that_nobody_asked_for_is_undone(site: Site) -> None:
    site.serve("/", gzip.compress(b"plain"), headers={"Content-Encoding": "gzip"})
    assert get(f"{site.origin}/").body == b"plain"


BROKEN = {"plain": b"no gzip", "cut": gzip.compress(b"cut off")[:-9], "empty": b""}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_broken_compressed_data_is_told(data: bytes) -> None:
    with pytest.raises(Invalid):
        decompress(data, max_bytes=100)


def test_a_reply_that_breaks_off_is_no_reply(site: Site) -> None:
    site.serve("/", b"half", headers={"Content-Length": "8"})
    with pytest.raises(Unavailable) as error:
        get(f"{site.origin}/")
    assert error.value.code == "unreachable"


def test_a_reply_that_trickles_ends_at_the_timeout(site: Site) -> None:
    def trickle() -> Iterator[bytes]:
        for _ in range(100):
            time.sleep(0.05)
            yield b"x"

    site.pages["/"] = Served(drip=trickle)
    started = time.monotonic()
    with pytest.raises(Unavailable) as error:
        get(f"{site.origin}/", timeout=0.3)
    assert error.value.code == "too_slow"
    assert time.monotonic() - started < 1.5


def test_headers_that_trickle_end_at_the_timeout(settings: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        settings.EGRESS_ALLOW = (f"127.0.0.1:{port}",)
        with pytest.raises(Unavailable) as error:
            get(f"http://127.0.0.1:{port}/", timeout=0.3)
    assert error.value.code == "too_slow"


def test_a_closed_port_that_is_allowed_is_unreachable(settings: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    settings.EGRESS_ALLOW = (f"127.0.0.1:{port}",)
    with pytest.raises(Unavailable):
        get(f"http://127.0.0.1:{port}/")


def test_something_that_is_no_web_server_is_unreachable(settings: Any) -> None:
    with listener() as mute:
        settings.EGRESS_ALLOW = (f"127.0.0.1:{mute.port}",)
        with pytest.raises(Unavailable):
            get(f"http://127.0.0.1:{mute.port}/")


def test_proxies_of_the_environment_are_ignored(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listener() as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        site.serve("/", "direct")
        assert get(f"{site.origin}/").body == b"direct"
    assert proxy.connections == 0


# --- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of wiki.example, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "wiki.example")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now() - timedelta(days=1))
        .not_valid_after(now() + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("wiki.example")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


@pytest.fixture
def safe_site(certificate: Path, settings: Any) -> Iterator[tuple[Site, Network]]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with website(tls=context) as running:
        settings.EGRESS_ALLOW = (running.allowed,)
        trusting = Network(
            resolve=Names(["127.0.0.1"]),
            tls=lambda: ssl.create_default_context(cafile=str(certificate)),
        )
        yield running, trusting


def test_tls_is_spoken_to_the_checked_address_in_the_name_of_the_host(
    safe_site: tuple[Site, Network],
) -> None:
    running, network = safe_site
    running.serve("/", "safe")
    assert get(f"https://wiki.example:{running.port}/", network=network).body == b"safe"
    assert running.asked[0].headers["host"] == f"wiki.example:{running.port}"


@pytest.mark.parametrize(("host", "trusts"), [("other.example", True), ("wiki.example", False)])
def test_a_certificate_of_another_name_or_maker_is_not_accepted(
    safe_site: tuple[Site, Network], host: str, trusts: bool
) -> None:
    running, network = safe_site
    if not trusts:
        network = Network(resolve=network.resolve)
    with pytest.raises(Unavailable) as error:
        get(f"https://{host}:{running.port}/", network=network)
    assert error.value.code == "certificate"
    assert running.asked == []


def test_a_connected_socket_is_given_out_checked(safe_site: tuple[Site, Network]) -> None:
    running, network = safe_site
    with connect("wiki.example", running.port, timeout=5, tls=True, network=network) as opened:
        assert opened.getpeername() == ("127.0.0.1", running.port)
        assert isinstance(opened, ssl.SSLSocket)
    with pytest.raises(Refused):
        connect("127.0.0.1", running.port + 1, timeout=5)


def test_a_page_may_depend_on_what_was_asked(site: Site) -> None:
    def page(asked: Asked) -> Served:
        return Served(status=304 if asked.headers.get("if-none-match") == '"1"' else 200)

    site.pages["/"] = page
    assert get(f"{site.origin}/", headers={"If-None-Match": '"1"'}).status == 304
    assert get(f"{site.origin}/").status == 200
