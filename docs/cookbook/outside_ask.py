"""A deployment script that asks people, wherever it runs: on a laptop, in CI, in a task of another orchestrator.

export WFDASH_URL=https://wfdash.example WFDASH_TOKEN=wfd_...
python outside_ask.py 2.4
"""

import sys

from wfdash.client import Approval, NotAnswered, ask_sync


def deploy(version: str, by: str = "release") -> str:
    """Ask, wait for the answer, and act on it. The same version finds the same question again."""
    card = Approval(
        subject=f"Deploy {version}?",
        consequence={"approve": "Deployed at once", "reject": "The script ends with your reason"},
        undo="Deploy the version before",
        require_reason=True,
    )
    try:
        decision = ask_sync(card, by=by, due="4h", ref=f"deploy {version}")
    except NotAnswered as error:
        return f"not deployed: {error}"
    if not decision.approved:
        return f"not deployed: {decision.reason}"
    return f"deployed {version}, approved by {decision.by}"


if __name__ == "__main__":
    print(deploy(sys.argv[1]))
