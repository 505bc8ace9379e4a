"""The examples for nginx and Caddy, in front of two real web processes: what the page on operations says they do."""

import re
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import orjson
import pytest
from pytest_django import DjangoDbBlocker

from tests.project.processes import ROOT
from tests.servers.ports import find_free_port
from tests.servers.postgres import PostgresServer
from tests.servers.records import furnish
from tests.servers.simulator import SimulatorServer
from tests.servers.web import WebServer, wait_until

DEPLOY = ROOT / "docs/deploy"
NAME = "signalbox.example"


def installed(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed here")
    return found


@dataclass(frozen=True, slots=True)
class Proxy:
    """A running proxy and what is behind it."""

    port: int
    name: str
    webs: list[WebServer]
    secret: str
    folder: Path

    def client(self, *, address: str = "127.0.0.1") -> httpx.Client:
        """A browser or an application, that calls from an address of this machine."""
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        transport = httpx.HTTPTransport(verify=trusting, local_address=address)
        host = self.name if self.name == "localhost" else "127.0.0.1"
        return httpx.Client(
            base_url=f"https://{host}:{self.port}",
            headers={"host": self.name, "authorization": f"Bearer {self.secret}"},
            transport=transport,
            timeout=20.0,
        )


@pytest.fixture(scope="module")
def simulator() -> Iterator[SimulatorServer]:
    with SimulatorServer() as server:
        yield server


@pytest.fixture(scope="module")
def webs(
    postgres_server: PostgresServer,
    django_db_blocker: DjangoDbBlocker,
    simulator: SimulatorServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[list[WebServer], str]]:
    """Two processes of one installation, and a key's secret."""
    environ = {
        "SIGNALBOX_OUTBOUND_ALLOW": simulator.url.removeprefix("http://"),
        "SIGNALBOX_INSECURE_HTTP": "0",
        "SIGNALBOX_ALLOWED_HOSTS": f"{NAME},localhost",
    }
    with postgres_server.database() as url, django_db_blocker.unblock():
        servers = [
            WebServer(environ=environ, database_url=url, folder=tmp_path_factory.mktemp("web")) for _ in range(2)
        ]
        servers[0].migrate()
        with servers[0].records():
            secret = furnish(simulator)
        yield servers, secret
        for server in servers:
            server.stop()


@pytest.fixture(params=["nginx", "caddy"])
def proxy(
    request: pytest.FixtureRequest, webs: tuple[list[WebServer], str], simulator: SimulatorServer, tmp_path: Path
) -> Iterator[Proxy]:
    """The example as it is, but for ports, names and the places of files."""
    servers, secret = webs
    program = installed(request.param)
    for server in servers:
        if server.url == "" or server.process.poll() is not None:
            server.start()
    simulator.restore_behaviours()
    simulator.reset_stats()
    port = find_free_port()
    ports = [server.url.rpartition(":")[2] for server in servers]
    started = (start_nginx if request.param == "nginx" else start_caddy)(program, port, ports, tmp_path)
    made = Proxy(port, NAME if request.param == "nginx" else "localhost", servers, secret, tmp_path)
    try:
        wait_until(lambda: answers(made), seconds=15)
        yield made
    finally:
        started.terminate()
        started.wait(20)


def answers(proxy: Proxy) -> bool:
    with proxy.client() as client:
        try:
            return client.get("/healthz").is_success
        except httpx.TransportError:
            return False


def start_nginx(program: str, port: int, ports: list[str], folder: Path) -> "subprocess.Popen[bytes]":
    certificate, key = folder / "fullchain.pem", folder / "privkey.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={NAME}"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    host = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    host = host.replace("/etc/signalbox/tls/", f"{folder}/").replace("listen 443", f"listen 127.0.0.1:{port}")
    host = host.replace("listen 80", f"listen 127.0.0.1:{find_free_port()}")
    for example, here in zip(("8001", "8002"), ports, strict=True):
        host = host.replace(f"127.0.0.1:{example}", f"127.0.0.1:{here}")
    places = "\n".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;\n"
        f"events {{ }}\nhttp {{ access_log off; {places}\n{host} }}\n",
        encoding="utf-8",
    )
    return subprocess.Popen([program, "-p", str(folder), "-e", f"{folder}/early.log", "-c", f"{folder}/nginx.conf"])


def start_caddy(program: str, port: int, ports: list[str], folder: Path) -> "subprocess.Popen[bytes]":
    page = (DEPLOY / "Caddyfile").read_text(encoding="utf-8")
    head = "{\n\tadmin off\n\tskip_install_trust\n\tauto_https disable_redirects\n}\n"
    (folder / "Caddyfile").write_text(head + page, encoding="utf-8")
    with (folder / "caddy.log").open("wb") as output:
        return subprocess.Popen(
            [program, "run", "--config", f"{folder}/Caddyfile", "--adapter", "caddyfile"],
            env={
                "HOME": str(folder),
                "XDG_DATA_HOME": str(folder),
                "XDG_CONFIG_HOME": str(folder),
                "HOST_NAME": f"localhost:{port}",
                "UPSTREAMS": " ".join(f"127.0.0.1:{each}" for each in ports),
            },
            stdout=output,
            stderr=output,
        )


def question(**members: object) -> bytes:
    return orjson.dumps({"model": "support-chat", "messages": [{"role": "user", "content": "Hello"}], **members})


def test_pages_are_reached_by_https_alone(proxy: Proxy) -> None:
    with proxy.client() as client:
        page = client.get("/admin/login/")
        assert page.status_code == 200  # and is not sent to HTTPS again and again
        assert "Secure" in page.headers["set-cookie"]
        assert client.get("/static/signalbox/admin.css").status_code == 200


def test_a_stream_arrives_while_it_is_written(proxy: Proxy, simulator: SimulatorServer) -> None:
    simulator.set_behaviour(latency={"mean_ms": 1500, "first_chunk_ms": 100})
    with proxy.client() as client:
        started = time.monotonic()
        arrived = []
        with client.stream("POST", "/v1/chat/completions", content=question(stream=True)) as answer:
            assert answer.status_code == 200
            assert "content-encoding" not in answer.headers
            for _ in answer.iter_bytes():
                arrived.append(time.monotonic() - started)
    assert len(arrived) > 3
    assert arrived[0] < arrived[-1] - 0.7  # seconds: not collected and handed over at the end


def test_bodies_up_to_the_gateways_own_limit(proxy: Proxy) -> None:
    large = "x" * (32 * 1024 * 1024)
    with proxy.client() as client:
        told = client.post("/v1/chat/completions", content=question(user=large))
        assert (told.status_code, told.json()["error"]["code"]) == (413, "body_too_large")
        fits = client.post("/v1/chat/completions", content=question(user=large[:-1000]))
        assert fits.status_code != 413
        refused = client.post("/v1/chat/completions", content=question(user=large * 2))
        assert refused.status_code == 413
    assert not [file for file in proxy.folder.rglob("client_body/*") if file.is_file()]


def test_readiness_is_kept_inside(proxy: Proxy) -> None:
    with proxy.client() as inside, proxy.client(address="127.0.0.2") as outside:
        assert inside.get("/readyz").json()["status"] == "ready"
        assert outside.get("/readyz").status_code in (403, 404)
        assert outside.get("/healthz").status_code in (403, 404)
        assert outside.post("/v1/chat/completions", content=question()).status_code == 200


def test_an_address_that_a_client_claims_is_not_believed(proxy: Proxy) -> None:
    with proxy.client(address="127.0.0.3") as client:
        client.get("/admin/login/", headers={"x-forwarded-for": "203.0.113.77"})
    wait_until(lambda: "127.0.0.3" in "".join(web.log for web in proxy.webs))
    assert "203.0.113.77" not in "".join(web.log for web in proxy.webs)


def test_a_process_that_is_killed_costs_the_calls_that_it_had(proxy: Proxy, simulator: SimulatorServer) -> None:
    """And no provider is asked twice for one of them."""
    simulator.set_behaviour(latency={"mean_ms": 300})
    with proxy.client() as client, ThreadPoolExecutor(16) as callers:

        def call(number: int) -> int | None:
            """The status; none where the answer was cut off."""
            if number == 40:
                proxy.webs[0].process.kill()
            try:
                return client.post("/v1/chat/completions", content=question(user=f"caller-{number}")).status_code
            except httpx.RemoteProtocolError:
                return None

        statuses = list(callers.map(call, range(120)))
    assert set(statuses) <= {200, 502, 503, None}
    assert statuses.count(200) >= 120 - 16  # those that it had
    assert set(statuses[70:]) == {200}
    assert simulator.stats()["received"] <= 120


def test_time_outs_and_sizes_agree_with_the_processes() -> None:
    """Proxies let go of a connection before the processes do, and allow a body that is a little over the limit."""
    unit = (DEPLOY / "systemd/signalbox-web@.service").read_text(encoding="utf-8")
    kept = int(re.findall(r"--timeout-keep-alive (\d+)", unit)[0])
    nginx = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    caddy = (DEPLOY / "Caddyfile").read_text(encoding="utf-8")
    assert int(re.findall(r"keepalive_timeout (\d+)s", nginx)[0]) < kept
    assert int(re.findall(r"keepalive (\d+)s", caddy)[0]) < kept
    assert re.findall(r"client_max_body_size (\d+)m", nginx) == re.findall(r"max_size (\d+)MiB", caddy) == ["33"]
    assert re.findall(r"proxy_read_timeout (\d+)s", nginx) == re.findall(r"response_header_timeout (\d+)s", caddy)
