"""Differences of texts, patches and values."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from wfdash.notifications.rendering import engine
from wfdash.web.pages.ui.diff.lines import MAX_LINES, diff_text, diff_values, grouped, split_lines
from wfdash.web.pages.ui.diff.unified import parse_unified

LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=12).map("\n".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
)
PATCH = """diff --git a/old name.py b/old name.py
index 1..2 100644
--- a/old name.py
+++ b/old name.py
@@ -3,4 +3,5 @@ def f():
 same
-removed one
+added one
+added two
{blank}
 last
\\ No newline at end of file
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
--- looks like a header
diff --git a/x.png b/x.png
new file mode 100644
Binary files /dev/null and b/x.png differ
diff --git a/a.txt b/b.txt
similarity index 100%
rename from a.txt
rename to b.txt
""".replace("{blank}", " ")


def texts(lines: Any, kinds: set[str]) -> list[str]:
    return ["".join(piece.text for piece in line.pieces) for line in lines if line.kind in kinds]


@given(LINES, LINES)
def test_both_texts_can_be_read_off_the_difference(before: str, after: str) -> None:
    diff = diff_text(before, after, context=1000)
    if diff.same:
        assert split_lines(before) == split_lines(after)
        return
    assert texts(diff.lines, {"same", "removed"}) == split_lines(before)
    assert texts(diff.lines, {"same", "added"}) == split_lines(after)
    assert [line.old for line in diff.lines if line.old] == list(range(1, len(split_lines(before)) + 1))
    assert [line.new for line in diff.lines if line.new] == list(range(1, len(split_lines(after)) + 1))


@given(LINES, LINES)
def test_side_by_side_shows_every_line_once(before: str, after: str) -> None:
    diff = diff_text(before, after, context=1000)
    left = [pair.left for pair in diff.pairs if pair.left and pair.left.kind != "added"]
    assert [line.kind for line in left if line.kind != "note"].count("removed") == diff.removed


def test_the_words_that_differ_are_marked() -> None:
    diff = diff_text("total = amount + fee", "total = amount + tax")
    assert [[p.text for p in line.pieces if p.marked] for line in diff.lines] == [["fee"], ["tax"]]


def test_equal_stretches_are_folded() -> None:
    before = "\n".join(map(str, range(100)))
    diff = diff_text(before, before.replace("50", "fifty"))
    assert [(line.kind, line.count) for line in diff.lines if line.kind == "fold"] == [("fold", 47), ("fold", 46)]


def test_huge_texts_are_bounded() -> None:
    before = "\n".join(f"a{n}" for n in range(20_000))
    diff = diff_text(before, before.replace("a", "b"))
    assert not diff.exact
    assert len(diff.lines) == MAX_LINES + 1
    assert (diff.added, diff.lines[-1].pieces[0].text) == (20_000, "38,000 more lines are not shown")


def test_a_difference_in_line_ends_alone_is_told() -> None:
    assert [line.kind for line in diff_text("a\r\n", "a\n").lines][-1] == "note"


def test_a_patch_is_read_by_file_and_hunk() -> None:
    changed, deleted, binary, renamed = parse_unified(PATCH)
    assert (changed.path, changed.status, changed.added, changed.removed) == ("old name.py", "changed", 2, 1)
    hunk = changed.hunks[0]
    assert (hunk.header, hunk.title) == ("@@ -3,4 +3,5 @@", "def f():")
    assert [(line.kind, line.old, line.new) for line in hunk.lines] == [
        ("same", 3, 3),
        ("removed", 4, None),
        ("added", None, 4),
        ("added", None, 5),
        ("same", 5, 6),
        ("same", 6, 7),
        ("note", None, None),
    ]
    assert (deleted.path, deleted.status, deleted.removed) == ("gone.txt", "deleted", 1)
    assert (binary.path, binary.status, binary.binary) == ("x.png", "added", True)
    assert (renamed.path, renamed.moved_from, renamed.status) == ("b.txt", "a.txt", "renamed")


def test_a_plain_patch_without_git_headers_is_read() -> None:
    files = parse_unified(
        "--- a.txt\t2026-01-01\n+++ a.txt\n@@ -1 +1 @@\n-x\n+y\n--- b.txt\n+++ b.txt\n@@ -1 +1 @@\n-x\n+y"
    )
    assert [(file.path, file.added, file.removed) for file in files] == [("a.txt", 1, 1), ("b.txt", 1, 1)]


@settings(deadline=None)
@given(st.text(alphabet="+-@ ab\n\\diff/", max_size=300))
def test_any_text_is_survived(text: str) -> None:
    parse_unified(text)
    diff_text(text, text[::-1])
    page = engine().from_string("{% load wfdash %}{% unified_diff t %}{% value_diff t u %}")
    assert page.render({"t": text, "u": text[::-1]})


def test_a_long_patch_is_cut() -> None:
    body = "".join(f"+line {n}\n" for n in range(MAX_LINES + 10))
    (file,) = parse_unified(f"--- a\n+++ b\n@@ -0,0 +1,{MAX_LINES + 10} @@\n{body}")
    assert file.left_out == 10
    assert file.long


def test_changes_of_values_have_paths() -> None:
    before = {"a": 1, "items": [{"n": 1}, {"n": 2}], "gone": True, "one": 1}
    after = {"a": 2, "items": [{"n": 1}, {"n": 3}, "new"], "fresh": None, "one": True}
    told = [(change.kind, change.where) for change in diff_values(before, after)]
    assert told == [
        ("changed", "a"),
        ("changed", "items[1].n"),
        ("added", "items[2]"),
        ("removed", "gone"),
        ("changed", "one"),
        ("added", "fresh"),
    ]


def test_an_item_put_in_front_is_one_change() -> None:
    assert [(c.kind, c.where) for c in diff_values([1, 2, 3], [0, 1, 2, 3])] == [("added", "[0]")]


@given(JSON, JSON)
def test_values_differ_exactly_when_there_are_changes(before: Any, after: Any) -> None:
    same = type(before) is type(after) and repr(before) == repr(after)
    assert not diff_values(before, before)
    if same:
        assert not diff_values(before, after)
    elif before != after:
        assert diff_values(before, after)


def test_many_changes_are_bounded() -> None:
    changes = diff_values(list(range(2000)), list(range(1, 2001)))
    assert (len(changes), sum(change.drawn for change in changes)) == (500, 150)


def test_the_changes_of_one_page_share_what_it_may_draw() -> None:
    page = page_of(*({str(n): "a\n" * 500 + f"{text}\n" * n for n in range(1, 100)} for text in "xy"))
    assert page.count("497 unchanged lines</span>") == 2
    assert page.count("497 unchanged lines<") > 20
    assert f"{99 - page.count('<section')} more changes are not shown" in page


def test_equal_lines_unfold_without_a_script() -> None:
    before = "\n".join(map(str, range(100)))
    diff = diff_text(before, before.replace("50", "fifty"))
    first = next(line for line in diff.lines if line.kind == "fold")
    assert texts(first.hidden, {"same"}) == [str(n) for n in range(47)]
    html = page_of(before, before.replace("50", "fifty"))
    assert '<input type="checkbox"><span>47 unchanged lines</span>' in html
    assert html.count('<tbody class="folded">') == 4


def page_of(before: Any, after: Any) -> str:
    return engine().from_string("{% load wfdash %}{% value_diff a b %}").render({"a": before, "b": after})


def test_two_equal_lines_are_not_worth_a_fold() -> None:
    diff = diff_text("a\n" + "x\n" * 8 + "b", "A\n" + "x\n" * 8 + "B")
    assert "fold" not in {line.kind for line in diff.lines}


def test_too_many_equal_lines_stay_on_the_server() -> None:
    before = "x\n" * 5000
    (fold, *_) = diff_text(before + "a", before + "b").lines
    assert (fold.count, fold.hidden) == (4997, ())


def test_a_phrase_is_one_mark() -> None:
    before, after = diff_text("It is the first of them all, they say", "It is a new one of them all, they say").lines
    assert [p.text for p in before.pieces if p.marked] == ["the first"]
    assert [p.text for p in after.pieces if p.marked] == ["a new one"]


def test_lines_with_little_in_common_are_not_marked() -> None:
    diff = diff_text("return round(price - price * percent / 100, 2)", "if not 0 <= percent <= 100: raise Error")
    assert not any(piece.marked for line in diff.lines for piece in line.pieces)


def test_short_changes_are_rows_with_the_words_marked() -> None:
    before = {"n": 1, "s": "north side", "deep": {"a": 1}, "t": "5"}
    after = {"n": 2, "s": "south side", "deep": [1], "t": 5}
    (rows, short), (big, _), (_, last) = grouped(diff_values(before, after))
    assert (rows, big) == (True, False)
    assert [[p.text for p in side] for side in short[0].sides] == [["1"], ["2"]]
    assert [p.text for p in short[1].sides[1] if p.marked] == ["south"]
    assert ["".join(p.text for p in side) for side in last[0].sides] == ['"5"', "5"]


def test_names_and_values_of_changes_hide_nothing() -> None:
    page = page_of({"x\u202e<b>": "\u200b<i>"}, {"x\u202e<b>": "<script>"})
    assert "\u202e" not in page
    assert "\u200b" not in page
    assert not {"<b>", "<i>", "<script>"} & set(page.split())
    assert "&lt;<mark>script</mark>&gt;" in page


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_values_that_are_no_json_are_compared_too() -> None:
    odd = {1: Odd(), "a": {1, 2}, "b": b"x"}
    assert "cannot be shown" in page_of(odd, {"a": {2}, "c": Odd()})


def drawn(text: str, anchor: str = "proposal") -> str:
    page = engine().from_string('{% load wfdash %}{% include "components/diff/unified.html" with anchor=anchor %}')
    return page.render({"files": parse_unified(text), "text": text, "anchor": anchor})


def test_a_patch_of_several_files_begins_with_links_to_them() -> None:
    html = drawn(PATCH)
    assert html.count('<a href="#proposal-') == html.count('class="diff-content"') == 4
    assert 'href="#proposal-3" data-file' in html
    assert 'id="proposal-3"' in html
    assert "Binary file: its content is not shown" in html
    assert "Renamed without changes" in html
    assert "diff-list" not in drawn("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y")


def test_what_a_patch_does_to_a_file_beside_its_lines_is_said() -> None:
    mode, copied = parse_unified(
        "diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"
        "diff --git a/one b/two\nsimilarity index 100%\ncopy from one\ncopy to two\n"
    )
    assert (mode.mode, mode.nothing_shown) == ("100644 → 100755", "Only its permissions change")
    assert (copied.status, copied.moved_from, copied.nothing_shown) == ("copied", "one", "Copied without changes")


def test_long_unchanged_stretches_of_a_patch_are_folded() -> None:
    same = "".join(f" {n}\n" for n in range(40))
    (file,) = parse_unified(f"--- a\n+++ a\n@@ -1,80 +1,81 @@\n{same}+new\n{same}")
    assert [line.count for line in file.hunks[0].lines if line.kind == "fold"] == [37, 37]


def test_names_in_a_patch_hide_nothing() -> None:
    (quoted,) = parse_unified(
        '--- "a/\\303\\244\\302\\255.py"\n+++ "b/\\303\\244\\302\\255.py"\n@@ -1 +1 @@ \u202etitle\n-x\n+y'
    )
    assert quoted.path == "ä[U+00AD].py"
    assert quoted.hunks[0].title == "[U+202E]title"
    (turned,) = parse_unified("--- a/\u202egnp.py\n+++ b/\u202egnp.py\n@@ -1 +1 @@\n-x\n+y")
    assert turned.path == "[U+202E]gnp.py"


def test_lines_have_the_colours_of_the_file_and_the_marks_of_the_change() -> None:
    html = drawn("--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n def f():\n-    return 'one'\n+    return 'two'")
    assert '<span class="hl-k">def</span>' in html
    assert '<mark><span class="hl-s1">two</span></mark>' in html
    assert "hl-" not in drawn("--- a/a.xyz\n+++ b/a.xyz\n@@ -1 +1 @@\n-def f(): pass\n+def g(): pass")


@settings(deadline=None)
@given(st.lists(st.text(alphabet="'\"# \tdef(x):\\[]{}\r", max_size=30), max_size=8))
def test_colours_never_change_a_line(lines: list[str]) -> None:
    body = "".join(f"+{line}\n" for line in lines)
    colour, plain = (parse_unified(f"--- a\n+++ b.{end}\n@@ -0,0 +1,{len(lines)} @@\n{body}") for end in ("py", "no"))
    shown = [
        ["".join(run.text for run in line.pieces) for f in one for h in f.hunks for line in h.lines]
        for one in (colour, plain)
    ]
    assert shown[0] == shown[1]


def test_the_same_changes_have_the_same_mark_and_others_another() -> None:
    patch = "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+{}"
    marks = [parse_unified(patch.format(text))[0].mark for text in ("y", "y", "z")]
    assert marks[0] == marks[1] != marks[2]


def test_a_patch_of_many_files_is_bounded() -> None:
    one = "diff --git a/{0} b/{0}\n--- a/{0}\n+++ b/{0}\n@@ -0,0 +1,10 @@\n" + "+x\n" * 10
    text = "".join(one.format(n) for n in range(10_000))
    html = drawn(text)
    assert "10,000 files" in html
    assert "9,700 more files not shown" in html
    assert "+100,000" in html
    assert len(html) < 2_000_000


def test_files_are_marked_as_viewed_where_there_are_several_on_a_card() -> None:
    assert drawn(PATCH).count("data-viewed>") == 4
    assert "data-viewed>" not in drawn(PATCH, anchor="")
    assert "data-viewed>" not in drawn("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y")
