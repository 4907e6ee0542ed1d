"""The files of docs/deployment: what they start exists, and they pass the linters there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from wfdash import cli
from wfdash.cli import processes
from wfdash.cli.new import written
from wfdash.installation.defaults import DEFAULTS
from wfdash.installation.environment import ALL, SECRETS, as_networks, read_secret_files
from wfdash.web.api import long_poll
from wfdash.web.page_threads import DEADLINE_SECONDS, LEAST_SECONDS
from wfdash.web.pages.site import health
from wfdash.worker.process import DRAIN_SECONDS, LEAVE_SECONDS, SERVER_DRAIN_SECONDS, stop_seconds

ROOT = Path(__file__).parents[2]
DEPLOYMENT = ROOT / "docs" / "deployment"


def test_the_container_files_pass_their_linters(tmp_path: Path) -> None:
    tools = Path(sys.executable).parent
    rules = "{extends: default, rules: {line-length: {max: 120}}}"
    begun = tmp_path / "Dockerfile"
    begun.write_text(written("refunds")["Dockerfile"])
    for command in (
        [tools / "hadolint", DEPLOYMENT / "Dockerfile", begun],
        [tools / "yamllint", "--strict", "-d", rules, *DEPLOYMENT.rglob("*.yaml")],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "drain"),
    [
        ("wfdash.service", SERVER_DRAIN_SECONDS),
        ("wfdash-web.service", SERVER_DRAIN_SECONDS),
        ("wfdash-worker@.service", DRAIN_SECONDS),
    ],
)
def test_the_units_start_what_there_is_and_stop_in_time(name: str, drain: float) -> None:
    unit = (DEPLOYMENT / name).read_text()
    (command,) = re.findall(r"^ExecStart=/opt/wfdash/bin/wfdash (.*)$", unit, re.MULTILINE)
    assert_starts(command.split())
    (timeout,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert int(timeout) > stop_seconds(drain) + LEAVE_SECONDS
    assert "KillMode=mixed" in unit
    assert "LimitNOFILE=65536" in unit


def assert_starts(words: list[str]) -> None:
    """Assert that a command line serves, or works."""
    assert words[0] in {"up", "web", "worker", "migrate"}
    assert cli._parser().parse_args(words).run


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here to read them")
@pytest.mark.parametrize("name", [path.name for path in DEPLOYMENT.glob("*.service")])
def test_systemd_understands_the_units_and_finds_them_confined(name: str, tmp_path: Path) -> None:
    unit = tmp_path / name
    unit.write_text((DEPLOYMENT / name).read_text().replace("/opt/wfdash/bin/wfdash", shutil.which("true") or ""))
    for check in (["verify"], ["security", "--offline=true", "--threshold=20"]):
        done = subprocess.run(["systemd-analyze", *check, str(unit)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_containers_run_what_there_is_without_rights_and_can_write_to_their_volumes_alone() -> None:
    composed: Any = yaml.safe_load((DEPLOYMENT / "compose.yaml").read_text())
    image = (DEPLOYMENT / "Dockerfile").read_text()
    (default,) = re.findall(r"^CMD (.*)$", image, re.MULTILINE)
    assert_starts(yaml.safe_load(default))
    assert "\nUSER 10001\n" in image
    for name in ("migrate", "server", "worker"):
        service = composed["services"][name]
        assert_starts(service.get("command", yaml.safe_load(default)))
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["volumes"][0] == "data:/data"


def test_the_image_is_built_from_what_it_copies_and_nothing_else() -> None:
    lines = (DEPLOYMENT / "Dockerfile.dockerignore").read_text().splitlines()
    allowed = {line[1:] for line in lines if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (DEPLOYMENT / "Dockerfile").read_text(), re.MULTILINE)
    assert {name for line in copied for name in line.split()} == allowed
    assert "*" in lines
    assert [name for name in allowed if not (ROOT / name).exists()] == []


def test_the_page_names_each_secret_that_can_be_in_a_file() -> None:
    (_, section) = (ROOT / "docs" / "deployment.md").read_text().split("\n## Secrets as files\n")
    assert [name for name in SECRETS if f"`{name}`" not in section.partition("\n## ")[0]] == []


def test_every_setting_that_the_files_name_exists() -> None:
    texts = ((ROOT / name).read_text() for name in ("wfdash/settings.py", "wfdash/installation/settings.toml"))
    known = set(re.findall(r"WFDASH_\w+", "".join(texts)))
    # These two are the compose file's own.
    known |= {"WFDASH_HOST"} | {f"{name}_FILE" for name in SECRETS}
    files = [path for path in DEPLOYMENT.rglob("*") if path.is_file()]
    assert len(files) > 8
    for path in files:
        assert set(re.findall(r"WFDASH_\w+", path.read_text())) <= known, path.name


def test_no_setting_is_read_that_the_table_does_not_have_and_the_page_is_made_of_it() -> None:
    subprocess.run([sys.executable, ROOT / ".ci/configuration.py"], check=True)
    texts = [path.read_text() for path in (ROOT / "wfdash").rglob("*.py")]
    read = set(re.findall(r"WFDASH_[A-Z_]*[A-Z]", "".join(texts)))
    provider = {name for name in read if name.startswith("WFDASH_OIDC_")} - {"WFDASH_OIDC_PROBLEMS"}
    own = {"WFDASH_KNOWN_COOKIE", "WFDASH_OIDC", "WFDASH_OIDC_PROBLEMS", "WFDASH_CHROMIUM"}
    assert read - ALL.keys() - provider - own == set()
    assert [name for name in ALL if name not in read and "kind" not in ALL[name]] == [
        "WFDASH_OIDC_...",
        "WFDASH_..._FILE",
    ]
    assert [name for name in provider if name not in (ROOT / "docs/sign-in.md").read_text()] == []


@pytest.mark.parametrize("name", ["nginx.conf", "Caddyfile"])
def test_a_proxy_tells_the_address_and_the_scheme_and_passes_on_what_stays_open(name: str) -> None:
    text = re.sub(r"^\s*#.*$", "", (DEPLOYMENT / name).read_text(), flags=re.MULTILINE)
    assert re.search(r"X-Request-ID", text)
    if name == "Caddyfile":
        # Caddy sets X-Forwarded-For and -Proto itself, upgrades sockets and has no limit of size.
        assert "flush_interval -1" in text
        assert "health_uri /readyz" in text
        assert "max_size" not in text
        waits, usual = map(int, re.findall(r"response_header_timeout (\d+)s", text))
        (tries,) = map(int, re.findall(r"lb_try_duration (\d+)s", text))
        assert waits > long_poll.MAX_WAIT_SECONDS
        assert DEADLINE_SECONDS + LEAST_SECONDS < usual < tries < 30
        return
    for header, value in {
        "X-Forwarded-For": r"\$remote_addr",
        "X-Forwarded-Proto": r"\$scheme",
        "Host": r"\$host",
    }.items():
        assert re.search(rf"proxy_set_header {header} +{value};", text)
    assert re.search(r"proxy_set_header Upgrade +\$http_upgrade;", text)
    assert "proxy_buffering off;" in text
    (size,) = re.findall(r"client_max_body_size (\d+)m;", text)
    assert int(size) * 1_000_000 > DEFAULTS["WFDASH_MAX_BODY"]
    usual, waits = map(int, re.findall(r"proxy_read_timeout (\d+)s;", text))
    assert waits > long_poll.MAX_WAIT_SECONDS
    assert DEADLINE_SECONDS + LEAST_SECONDS < usual < 30
    waiting = [line.split('"')[1::2] for line in re.findall(r'^    "~.*$', text, re.MULTILINE)]
    for asked, expected in {
        "websocket||*/*": True,
        "|60|*/*": True,
        "||text/event-stream": True,
        "||text/html": False,
    }.items():
        found = [pattern for (pattern,) in waiting if re.search(pattern.removeprefix("~"), asked)]
        assert (found[:1] != [r"~^\|\|"]) is expected


def kubernetes() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the objects of the Kubernetes files by kind and name."""
    made: dict[tuple[str, str], dict[str, Any]] = {}
    for path in (*(DEPLOYMENT / "kubernetes").glob("[!k]*.yaml"), DEPLOYMENT / "kubernetes-secrets.yaml"):
        for one in yaml.safe_load_all(path.read_text()):
            for item in one["items"] if one["kind"] == "List" else [one]:
                made[item["kind"], item["metadata"]["name"]] = item
    return made


def test_the_kubernetes_objects_fit_the_schemas_of_kubernetes() -> None:
    schemas = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for one in kubernetes().values():
        schemas.validate(one, schemas.latest_version(), strict=True)
        with pytest.raises(schemas.ValidationError):
            schemas.validate(one | {"metadata": {"lables": {}}}, schemas.latest_version(), strict=True)


@pytest.mark.django_db
def test_rules_and_dashboard_name_metrics_that_exist() -> None:
    ends = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"], "gauge": [""]}
    known = {f"{one.name}{end}" for one in health.DatabaseCollector().collect() for end in ends[one.type]}
    rules: Any = yaml.safe_load((DEPLOYMENT / "monitoring/rules.yaml").read_text())
    dashboard = json.loads((DEPLOYMENT / "monitoring/grafana.json").read_text())
    ruled = [rule for group in rules["groups"] for rule in group["rules"]]
    asked = [one["expr"] for one in (*ruled, *(one for panel in dashboard["panels"] for one in panel["targets"]))]
    recorded = {rule["record"] for rule in ruled if "record" in rule}
    assert {name for text in asked for name in re.findall(r"wfdash[_:][\w:]+", text)} - known - recorded == set()
    assert all(rule["annotations"].keys() == {"summary", "description"} for rule in ruled if "alert" in rule)


def test_kubernetes_starts_what_there_is_without_rights_and_asks_what_is_answered() -> None:
    pods = {
        name: one["spec"]["template"] for (kind, name), one in kubernetes().items() if kind in {"Job", "Deployment"}
    }
    assert set(pods) == {"wfdash-migrate", "wfdash-web", "wfdash-worker"}
    for pod in pods.values():
        (container,) = pod["spec"]["containers"]
        assert_starts(container["args"])
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert pod["spec"]["securityContext"]["runAsUser"] == 10001
        mounted = {one["name"] for one in container["volumeMounts"]}
        assert mounted == {one["name"] for one in pod["spec"]["volumes"]}
        (port,) = container.get("ports", [{"name": ""}])
        for name in ("startupProbe", "readinessProbe", "livenessProbe"):
            if name in container:
                asked = container[name]["httpGet"]
                assert (asked["path"], asked["port"]) == (
                    "/livez" if name == "livenessProbe" else "/readyz",
                    port["name"],
                )
                assert port["containerPort"] == int(re.split("[: ]", " ".join(container["args"]))[-1])


@pytest.mark.parametrize(("name", "drain"), [("wfdash-web", SERVER_DRAIN_SECONDS), ("wfdash-worker", DRAIN_SECONDS)])
def test_kubernetes_waits_until_a_pod_has_drained(name: str, drain: float) -> None:
    pod = kubernetes()["Deployment", name]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    before = container.get("lifecycle", {}).get("preStop", {"exec": {"command": ["sleep", "0"]}})
    waits = float(before["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > waits + stop_seconds(drain) + LEAVE_SECONDS


def test_the_objects_of_kubernetes_are_a_base_and_name_each_other_rightly() -> None:
    base: Any = yaml.safe_load((DEPLOYMENT / "kubernetes/kustomization.yaml").read_text())
    assert set(base["resources"]) == {path.name for path in (DEPLOYMENT / "kubernetes").glob("[!k]*.yaml")}
    images = re.findall(r"image: (\S+)", (DEPLOYMENT / "kubernetes/workloads.yaml").read_text())
    assert {f"{one['name']}:{one['newTag']}" for one in base["images"]} == set(images)
    made = kubernetes()
    settings, secret = made["ConfigMap", "wfdash"]["data"], made["Secret", "wfdash"]["stringData"]
    files = {value for name, value in settings.items() if name.endswith("_FILE")}
    assert files == {f"/secrets/{name}" for name in secret}
    labels = [one["spec"]["template"]["metadata"]["labels"] for (kind, _), one in made.items() if kind == "Deployment"]
    for (kind, name), one in made.items():
        if kind in {"Deployment", "PodDisruptionBudget"}:
            assert one["spec"]["selector"]["matchLabels"] in labels, name
    service, ingress = made["Service", "wfdash"]["spec"], made["Ingress", "wfdash"]["spec"]
    assert service["selector"] in labels
    (host,) = ingress["rules"]
    assert host["host"] in settings["WFDASH_HOSTS"].split(",")
    assert settings["WFDASH_ORIGINS"] == settings["WFDASH_URL"] == f"https://{host['host']}"
    assert host["http"]["paths"][0]["backend"]["service"] == {"name": "wfdash", "port": {"name": "http"}}
    assert settings["WFDASH_DATA"].startswith("/data/")
    policy = made["NetworkPolicy", "wfdash"]["spec"]
    assert all(policy["podSelector"]["matchLabels"].items() <= one.items() for one in labels)
    assert policy["ingress"][0]["ports"] == [{"port": "http"}]
    flow: dict[str, Any] = {}
    exec(made["ConfigMap", "wfdash-workflows"]["data"]["hello.py"], flow)
    assert flow["hello"].name == "hello"


def test_the_examples_of_proxies_and_secrets_are_refused_and_no_secret_is_in_a_folder_that_is_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = kubernetes()["ConfigMap", "wfdash"]["data"]["WFDASH_PROXIES"]
    with pytest.raises(ValueError, match="WFDASH_PROXIES must list addresses or networks"):
        as_networks("WFDASH_PROXIES", example)
    assert not [path for path in (DEPLOYMENT / "kubernetes").glob("*.yaml") if "kind: Secret" in path.read_text()]
    for name, text in kubernetes()["Secret", "wfdash"]["stringData"].items():
        variable = {"database": "WFDASH_DATABASE", "metrics_token": "WFDASH_METRICS_TOKEN"}.get(
            name, f"WFDASH_{name.upper()}"
        )
        (tmp_path / name).write_text(f"{text}\n")
        if variable != "WFDASH_DATABASE":
            with pytest.raises(ValueError, match=f"{variable} is the text of an example"):
                read_secret_files({f"{variable}_FILE": str(tmp_path / name)})


def test_a_secret_may_be_in_a_file_and_given_twice_or_with_a_missing_file_it_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WFDASH_MAIL_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("WFDASH_MAIL", "")
    assert cli.main(["verify"]) == 1
    assert f"WFDASH_MAIL_FILE: {tmp_path / 'none'} cannot be read" in capsys.readouterr().err
    (tmp_path / "key").write_text("k" * 50 + "\n")
    read_secret_files(env := {"WFDASH_SECRET_KEY_FILE": str(tmp_path / "key"), "WFDASH_MAIL": "smtp://x"})
    assert env == {"WFDASH_SECRET_KEY": "k" * 50, "WFDASH_MAIL": "smtp://x"}
    with pytest.raises(ValueError, match="WFDASH_MAIL and WFDASH_MAIL_FILE are both set: remove one"):
        read_secret_files({"WFDASH_MAIL": "smtp://x", "WFDASH_MAIL_FILE": "y"})


def test_a_shell_takes_the_commands_of_a_new_project_as_they_are_shown() -> None:
    shown = "\n".join(re.findall(r"^    (.*)$", written("refunds")["README.md"], re.MULTILINE))
    assert "-e WFDASH_HOSTS" in shown
    script = shown.replace("docker run", "set --") + '\necho "${@: -1}"'
    last = script.partition("docker build -t refunds .\n")[2]
    done = subprocess.run(["bash", "-c", last], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("refunds\n", "")


@pytest.mark.parametrize(
    ("path", "typed"), [(".venv/bin/wfdash", ".venv/bin/wfdash"), ("/x/wfdash/__main__.py", "python -m wfdash")]
)
def test_commands_to_type_next_are_called_as_this_one_was(
    path: str, typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert processes.typed_as(path) == typed
    monkeypatch.delenv("UV", raising=False)
    on_path = tmp_path / "wfdash"
    on_path.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert processes.typed_as(str(on_path)) == "wfdash"
