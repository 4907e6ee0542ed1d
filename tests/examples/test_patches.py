from __future__ import annotations

import pytest

from wfdash.examples.patches import FileChange, Finding, fix_line_ends, look_at, risk_of

NEW = "diff --git a/a.txt b/a.txt\nnew file mode 100644\n--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+x\n"


def change(path: str, *, added: int = 1, text: str = "+x\n") -> FileChange:
    return FileChange(path=path, added=added, removed=0, diff=f"--- a/{path}\n+++ b/{path}\n@@ -0,0 +1 @@\n{text}")


def test_line_ends_of_a_text_box_are_mended_and_those_of_a_file_kept():
    assert fix_line_ends(NEW.replace("\n", "\r\n").removesuffix("\r\n")) == NEW
    windows_file = NEW.replace("+x\n", "+x\r\n")
    assert fix_line_ends(windows_file) == windows_file


@pytest.mark.parametrize(
    ("given", "risk", "notes"),
    [
        (change("cart.py"), "low", ""),
        (change("requirements.txt"), "medium", "changes what is installed"),
        (change("shop/migrations/0002_price.py"), "medium", "changes the database"),
        (change(".github/workflows/test.yml"), "medium", "changes how it is built"),
        (change("cart.py", added=201), "medium", "large"),
        (change("cart.py", text="+run(cmd, shell=True)\n"), "high", "adds shell=True"),
        (change("cart.py", text="-run(cmd, shell=True)\n"), "low", ""),
    ],
)
def test_a_file_is_judged_by_path_size_and_added_words(given: FileChange, risk: str, notes: str):
    finding = look_at(given)
    assert (finding.risk, finding.notes) == (risk, notes)


def test_a_deleted_file_is_named():
    gone = FileChange(path="a.py", added=0, removed=3, diff="diff --git a/a.py b/a.py\ndeleted file mode 100644\n")
    assert look_at(gone).notes == "deletes the file"


def test_a_patch_is_as_risky_as_its_worst_file_and_high_when_a_check_complains():
    low = Finding(file="a", added=1, removed=0, risk="low", notes="")
    assert risk_of([low, low.model_copy(update={"risk": "medium"})], []) == "medium"
    assert risk_of([low], []) == "low"
    assert risk_of([low], ["ruff: E501"]) == "high"
