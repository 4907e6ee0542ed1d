"""``wfdash token``: make, list and revoke the tokens of programs."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from wfdash.cli.local import Setup, add_local, print_rows

USUAL = "see,inspect,answer,start,code,operate"


def add_token_commands(verbs: Any, setup: Setup) -> None:
    """Add the commands. ``setup`` starts Django for the options it is given."""
    parser = verbs.add_parser("token", help="make, list and revoke the tokens of programs")
    tokens = parser.add_subparsers(required=True, metavar="COMMAND")
    create = add_local(
        tokens,
        "create",
        _create,
        setup,
        help_text="make a token and print it, once",
        epilog="The token alone goes to the standard output: WFDASH_TOKEN=$(wfdash token create ana ci)",
    )
    create.add_argument("owner", help="the person or service account that a program acts as")
    create.add_argument("name", help="what will use it, such as ci")
    create.add_argument(
        "--rights", default=USUAL, help=f"comma-separated, of those its owner has; also admin (default: {USUAL})"
    )
    create.add_argument(
        "--workflow", action="append", default=[], metavar="NAME", help="only for this one; may be given again"
    )
    create.add_argument("--days", default="90", help="how long it works, or 'never' to expire (default: 90)")
    listed = add_local(tokens, "list", _list, setup, help_text="list tokens, without their secrets")
    listed.add_argument("owner", nargs="?", default="", help="only those of this account")
    listed.add_argument("--all", action="store_true", help="also revoked and expired ones")
    listed.add_argument("--json", action="store_true", help="as JSON")
    revoke = add_local(tokens, "revoke", _revoke, setup, help_text="make tokens useless at once")
    revoke.add_argument("ids", nargs="+", metavar="ID", help="as 'wfdash token list' shows it")


def _create(viewer: Any, options: argparse.Namespace) -> None:
    from wfdash.actions.account.tokens import create_token

    made = create_token(
        viewer,
        options.name,
        rights=[right for part in options.rights.split(",") if (right := part.strip())],
        workflows=options.workflow or ["*"],
        days=_days(options.days),
        owner=options.owner,
    )
    expires = f"until {made.token.expires:%Y-%m-%d}" if made.token.expires else "until it is revoked"
    print(f"Token {made.token.pk} of {options.owner}, {expires}. It is shown only now:", file=sys.stderr)
    print(made.text)


def _list(viewer: Any, options: argparse.Namespace) -> None:
    from wfdash.queries.account.tokens import all_tokens

    rows = [
        {
            "id": token.id,
            "owner": token.owner,
            "name": token.name,
            "rights": list(token.rights),
            "workflows": list(token.workflows),
            "expires": token.expires.isoformat(timespec="minutes") if token.expires else None,
            "used": token.used.isoformat(timespec="minutes") if token.used else None,
            "state": token.state,
        }
        for token in all_tokens(viewer, owner=options.owner, ended=options.all)
    ]
    print_rows(rows, as_json=options.json, empty="No tokens")


def _revoke(viewer: Any, options: argparse.Namespace) -> None:
    from wfdash.actions.account.tokens import revoke_token

    for one in options.ids:
        token = revoke_token(viewer, one)
        print(f"Revoked {token.name} of {token.owner.get_username()}")


def _days(text: str) -> int | None:
    from wfdash.errors import Invalid

    if text == "never":
        return None
    if not (text.isascii() and text.isdigit()):
        raise Invalid([{"loc": ["days"], "msg": "Enter a number of days, or never"}])
    return int(text)
