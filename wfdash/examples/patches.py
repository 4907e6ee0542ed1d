"""The types and cards of ``patch_review``: a patch, its files, what a reviewer should know about each. Pure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field

from wfdash.questions.card import LineComment
from wfdash.questions.evidence import File, Table
from wfdash.workflow import Approval, Form

Risk = Literal["low", "medium", "high"]
DELICATE = {
    r"(^|/)(requirements.*\.txt|pyproject\.toml|setup\.(py|cfg)|.*\.lock)$": "changes what is installed",
    r"(^|/)(\.github|\.gitlab-ci\.yml|\.ci|Dockerfile|Makefile)(/|$)": "changes how it is built",
    r"(^|/)migrations/": "changes the database",
}
DANGER = re.compile(r"^\+.*(\beval\(|\bexec\(|shell=True|pickle\.load|verify=False|PRIVATE KEY-----)", re.MULTILINE)
LARGE = 200
"""Changed lines in one file beyond which a review takes longer."""


def fix_line_ends(diff: str) -> str:
    """Return the diff with the line ends a text box changed; a CR in a patch whose headers have none belongs to a
    file.
    """
    text = diff.replace("\r\n", "\n") if "\r\n" in diff.partition("\n@@")[0] else diff
    return text if text.endswith("\n") else text + "\n"


Diff = Annotated[
    str,
    Field(
        title="Patch",
        description="Unified diff, as git diff prints it",
        min_length=1,
        max_length=400_000,
        json_schema_extra={"format": "textarea", "contentMediaType": "text/x-diff"},
    ),
    AfterValidator(fix_line_ends),
]


class Patch(BaseModel):
    """A diff and the repository it is meant for."""

    repository: str = Field(
        title="Repository",
        description="Absolute path of a git repository on this server",
        min_length=1,
        examples=["/srv/code/shop"],
    )
    diff: Diff


class FileChange(BaseModel):
    """What a patch does to one file."""

    path: str
    added: int
    removed: int
    diff: str


class Result(BaseModel):
    """The result of a patch: ``summary`` is what changed, or why nothing did."""

    applied: bool
    summary: str


class Remarks(BaseModel):
    """A patch that was rejected with comments on its lines."""

    patch: Patch
    reason: str
    lines: tuple[LineComment, ...]


class NextVersion(BaseModel):
    """What the author makes of the remarks."""

    diff: Diff


class Finding(BaseModel):
    """What a reviewer should know about one file of a patch."""

    file: str
    added: int
    removed: int
    risk: Risk
    notes: str


def look_at(change: FileChange) -> Finding:
    """Return the finding of one file by its path, its size and the words it adds."""
    notes = [note for pattern, note in DELICATE.items() if re.search(pattern, change.path)]
    notes += ["deletes the file"] * ("\ndeleted file mode" in change.diff)
    notes += ["large"] * (change.added + change.removed > LARGE)
    danger = [f"adds {word}" for word in dict.fromkeys(DANGER.findall(change.diff))]
    risk: Risk = "high" if danger else "medium" if notes else "low"
    text = ", ".join(danger + notes)
    return Finding(file=change.path, added=change.added, removed=change.removed, risk=risk, notes=text)


def risk_of(findings: list[Finding], complaints: list[str]) -> Risk:
    """Return the risk of the whole patch: that of its worst file, high if a check complains."""
    found = {one.risk for one in findings}
    return "high" if complaints or "high" in found else "medium" if "medium" in found else "low"


def question(patch: Patch, findings: list[Finding], complaints: list[str]) -> Approval:
    """Return the card of a patch with all findings."""
    return Approval(
        subject=f"Apply a patch to {len(findings)} files of {Path(patch.repository).name}?",
        body="\n\n".join(complaints) or "Applies cleanly; all checks pass.",
        proposal=patch.diff,
        edit=Diff,
        evidence=[
            Table(title="Files", rows=findings),
            File(title="Download patch", name="change.patch", data=patch.diff.encode()),
        ],
        consequence={
            "approve": f"git apply changes the files of {Path(patch.repository).name}; nothing is committed",
            "edit": "Your version is tested and comes back for approval",
            "reject": "Nothing changes",
        },
        risk=risk_of(findings, complaints),
        undo="git apply --reverse with the same patch",
        labels={"edit": "Edit patch"},
        require_reason=True,
    )


def rework_of(remarks: Remarks) -> Form:
    """Return the form in which the author changes a patch, below what was said of it."""
    said = [f"* `{one.file}`, line {one.line}: {one.text}" for one in remarks.lines]
    return Form(
        subject=f"Rework the patch of {Path(remarks.patch.repository).name}",
        body="\n".join([remarks.reason, "", *said]),
        current={"diff": remarks.patch.diff},
    )
