from __future__ import annotations

from pathlib import Path

import pytest
from django.core.checks.registry import registry

from wfdash.apps import check_provider
from wfdash.cli import processes
from wfdash.installation.provider import Provider, read_provider

WHOLE = {
    "WFDASH_OIDC_ISSUER": "https://login.example.org/realms/staff",
    "WFDASH_OIDC_CLIENT_ID": "wfdash",
    "WFDASH_OIDC_CLIENT_SECRET": "hush",
}


def problem(**changed: str) -> str:
    """Return the one thing that is wrong with these variables."""
    provider, problems = read_provider(WHOLE | {f"WFDASH_OIDC_{name}": value for name, value in changed.items()})
    assert (provider, len(problems)) == (None, 1)
    return problems[0]


def test_nothing_is_set_unless_something_is_given() -> None:
    assert read_provider({"WFDASH_DATA": "x", "WFDASH_OIDC_NAME": ""}) == (None, ())


def test_three_variables_suffice_and_the_careful_choice_is_the_default() -> None:
    provider, problems = read_provider(WHOLE)
    assert problems == ()
    assert provider == Provider(
        issuer=WHOLE["WFDASH_OIDC_ISSUER"], client_id="wfdash", client_secret="hush", name="login.example.org"
    )
    assert (provider.creates, provider.by_email, provider.trusts_email, provider.groups) == (False, False, False, {})
    assert "hush" not in repr(provider)


def test_everything_that_can_be_set_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from a file\n")
    given = WHOLE | {
        "WFDASH_OIDC_CLIENT_SECRET_FILE": str(tmp_path / "secret"),
        "WFDASH_OIDC_NAME": "Keycloak",
        "WFDASH_OIDC_SCOPES": "openid groups",
        "WFDASH_OIDC_PEOPLE": "email, create",
        "WFDASH_OIDC_NAME_CLAIM": "upn",
        "WFDASH_OIDC_GROUPS_CLAIM": "realm_access.roles",
        "WFDASH_OIDC_GROUPS": '{"/money": "finance", "/it": ["ops", "on call"]}',
        "WFDASH_OIDC_TRUST_EMAIL": "1",
        "WFDASH_OIDC_SECOND_FACTOR": "1",
        "WFDASH_OIDC_HOURS": "1.5",
    }
    assert read_provider(given)[0] == Provider(
        issuer=WHOLE["WFDASH_OIDC_ISSUER"],
        client_id="wfdash",
        client_secret="from a file",
        name="Keycloak",
        scopes=("openid", "groups"),
        name_claim="upn",
        groups_claim="realm_access.roles",
        groups={"/money": ("finance",), "/it": ("ops", "on call")},
        creates=True,
        by_email=True,
        trusts_email=True,
        second_factor=True,
        hours=1.5,
    )


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_missing_is_named(name: str) -> None:
    given = {key: value for key, value in WHOLE.items() if key != name}
    assert read_provider(given) == (None, (f"{name} is missing",))


def test_a_missing_extra_is_said_with_how_to_install_it() -> None:
    provider, problems = read_provider(WHOLE, find=lambda name: None)
    assert (provider, problems) == (None, ("it needs an extra: pip install 'wfdash[oidc]'",))


@pytest.mark.parametrize(
    ("issuer", "words"),
    [
        ("http://login.example.org", "must begin with https://"),
        ("login.example.org", "must begin with https://"),
        ("https://", "must be an address"),
        ("https://me:pass@login.example.org", "must be an address"),
        ("https://login.example.org/?tenant=1", "must be an address"),
        ("https://login.example.org:port", "is no address"),
        (f"https://login.example.org/{'x' * 200}", "at most 200"),
    ],
)
def test_an_issuer_that_cannot_be_is_refused(issuer: str, words: str) -> None:
    assert words in problem(ISSUER=issuer)


def test_plain_http_is_for_this_machine() -> None:
    assert read_provider(WHOLE | {"WFDASH_OIDC_ISSUER": "http://localhost:8080/realms/x"})[1] == ()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("PEOPLE", "everyone", "must be known, email, create"),
        ("PEOPLE", "known,create", "must be known, email, create"),
        ("SCOPES", "profile", "openid among them"),
        ("GROUPS", "finance", "must be JSON"),
        ("GROUPS", '{"a": 1}', "must be JSON"),
        ("GROUPS", '{"a": [""]}', "must be JSON"),
        ("GROUPS", '["a"]', "must be JSON"),
        ("HOURS", "0", "more than 0"),
        ("HOURS", "nan", "more than 0"),
        ("HOURS", "soon", "more than 0"),
        ("TRUST_EMAIL", "yes", "must be 0 or 1"),
        ("CLIENT_SECRET_FILE", "/nowhere/at/all", "No such file"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_with_what_could_be(name: str, value: str, words: str) -> None:
    said = problem(**{name: value})
    assert f"WFDASH_OIDC_{name}" in said
    assert words in said


def test_the_start_says_what_is_wrong_or_which_redirect_uri_to_register(settings, capsys) -> None:
    settings.WFDASH_OIDC_PROBLEMS = ("WFDASH_OIDC_ISSUER is missing",)
    processes.print_problems(settings)
    assert capsys.readouterr().err == "Sign-in with OpenID Connect is off: WFDASH_OIDC_ISSUER is missing\n"
    assert processes.provider_text(settings) == ""
    settings.WFDASH_OIDC, _ = read_provider(WHOLE)
    settings.WFDASH_URL = "https://flows.example.org"
    assert "https://flows.example.org/sign-in/provider/callback/" in processes.provider_text(settings)


def test_what_is_wrong_is_a_warning_of_manage_py_check(settings) -> None:
    settings.WFDASH_OIDC_PROBLEMS = ("WFDASH_OIDC_ISSUER is missing",)
    assert check_provider in registry.get_checks()
    (found,) = check_provider(None)
    assert found.id == "wfdash.W001"
    assert found.msg == "Sign-in with OpenID Connect is off: WFDASH_OIDC_ISSUER is missing."
