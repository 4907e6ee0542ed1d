"""What changed between two graphs, without any run."""

from __future__ import annotations

from wfdash.contract import ChannelInfo, Description, EdgeInfo, StepInfo
from wfdash.domain.graph_diff import UNSEEN, compare


def graph(version: str, steps: dict[str, tuple[str, str]], *edges: tuple[str, str], **was: str) -> Description:
    """A description: step -> (takes, gives); edges; step=old name."""
    return Description(
        workflow="w",
        title="W",
        engine="native",
        version=version,
        steps=tuple(
            StepInfo(name=name, takes=takes, gives=gives, was=(was[name],) if name in was else ())
            for name, (takes, gives) in steps.items()
        ),
        edges=tuple(EdgeInfo(source=source, target=target) for source, target in edges),
    )


OLD = graph(
    "1", {"read": ("", "int"), "check": ("int", "bool"), "pay": ("bool", "str")}, ("read", "check"), ("check", "pay")
)


def test_a_graph_does_not_differ_from_itself():
    assert compare(OLD, OLD).words == ()


def test_added_and_removed_steps_are_named():
    new = graph(
        "2",
        {"read": ("", "int"), "review": ("int", "bool"), "pay": ("bool", "str")},
        ("read", "review"),
        ("review", "pay"),
    )
    found = compare(OLD, new)
    assert (found.added, found.removed) == (("review",), ("check",))
    assert found.summary == "added: review; removed: check; pay comes after review, after check before"


def test_a_step_with_a_declared_old_name_is_renamed_and_nothing_else():
    new = graph(
        "2", {"read": ("", "int"), "review": ("int", "bool"), "pay": ("bool", "str")},
        ("read", "review"), ("review", "pay"), review="check",
    )  # fmt: skip
    found = compare(OLD, new)
    assert found.words == ("check was renamed review",)
    assert (found.added, found.removed, found.rerouted) == ((), (), ())


def test_types_and_routes_that_changed_are_told_with_what_they_were():
    new = graph(
        "2",
        {"read": ("", "int"), "check": ("int", "Verdict"), "pay": ("Verdict", "str")},
        ("read", "check"),
        ("read", "pay"),
    )
    found = compare(OLD, new)
    assert found.words == (
        "pay comes after read, after check before",
        "check gives Verdict, bool before",
        "pay takes Verdict, bool before",
    )


def test_a_change_that_the_drawing_does_not_show_is_said_to_be_one():
    assert compare(OLD, OLD.model_copy(update={"version": "2"})).words == (UNSEEN,)


def test_what_is_kept_between_steps_is_named_where_both_graphs_say_it():
    def keeping(**kinds: str) -> Description:
        kept = [ChannelInfo(name=name, kind=kind) for name, kind in kinds.items()]
        own = ChannelInfo(name="own", kind="Last", hidden=True)
        return OLD.model_copy(update={"version": "".join(kinds), "channels": (*kept, own)})

    old = keeping(log="Sum", note="Last")
    assert compare(old, keeping(log="Last", more="Last")).words == (
        "log of the state is kept as Last, as Sum before",
        "the state has also more",
        "the state no longer has note",
    )
    assert compare(old, OLD.model_copy(update={"version": "2"})).words == (UNSEEN,)
