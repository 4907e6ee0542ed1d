"""Content is cut into chunks of which only new ones are written, and sealed where it is encrypted."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import models
from checkpoints.content import chunks, encoder
from checkpoints.content.canonical_json import dumps
from checkpoints.content.chunks import INLINE, decode, hashes_in, hashes_in_chunk, verify_chunks
from checkpoints.content.encoder import Encoded, EncoderCache, encode
from checkpoints.content.encryption import MARK, Encryptor, Locked, encrypted_text_in, encryptor_of
from checkpoints.errors import ClaimLost, Damaged, InvalidConfig
from checkpoints.ids import CheckpointId, RunId, new_run_id
from checkpoints.records import Checkpoint, Claim, Commit, Phase, Standing
from tests.conformance.conftest import database as database
from tests.conformance.worlds import DatabaseWorld, checkpoint, claimed, started

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(TEXT, inner, max_size=8),
    max_leaves=40,
)

PLACES = [
    pytest.param(lambda texts: texts, id="texts by key"),
    pytest.param(lambda texts: {"docs": texts, "i": 1}, id="texts in a dict"),
    pytest.param(lambda texts: {"docs": [*texts.values()], "i": 1}, id="texts in a list"),
]
"""Where a state has its texts."""


def stretched(value: Any, times: int) -> Any:
    """Return the value made large, so that every kind of node occurs."""
    texts = {f"text {i}": f"{i} " * 900 for i in range(3)}
    return {"many": [value] * times, "named": {f"k{i}": value for i in range(times)}, **texts, "one": value}


def read(encoded: Encoded) -> Any:
    return decode(encoded.root, verify_chunks(encoded.chunks.items()))


@given(JSON)
@settings(deadline=None)
def test_any_json_survives(value: Any) -> None:
    assert read(encode(value)) == value


@given(JSON, st.integers(1, 100))
@settings(deadline=None)
def test_large_json_survives(value: Any, times: int) -> None:
    large = stretched(value, times)
    back = read(encode(large))
    assert back == large
    assert list(back) == list(large)


@given(TEXT.filter(bool), st.integers(30, 300))
@settings(deadline=None)
def test_long_texts_survive(unit: str, times: int) -> None:
    text = unit * times
    assert read(encode([text, {"a": text}])) == [text, {"a": text}]


@given(
    st.lists(st.tuples(st.sampled_from(["state", "position", "extra"]), TEXT, JSON, st.integers(1, 60))), st.booleans()
)
@settings(deadline=None)
def test_what_is_left_out_is_stored_already(changes: list[tuple[str, str, Any, int]], frozen: bool) -> None:
    value: dict[str, Any] = {"body": {"state": {"first": stretched(1, 40)}, "position": {}}, "requests": []}
    store, known = dict[str, bytes](), None
    for part, key, item, times in changes:
        entries = {**value["body"].get(part, {}), key: stretched(item, times) if times > 30 else item}
        if times % 7 == 0:
            entries.pop(key)
        value = {**value, "body": {**value["body"], part: entries}}
        encoded = encode(value, known=known, frozen=frozen)
        store.update(encoded.chunks)
        known = encoded.known
        assert encoded.root == encode(value).root
        assert encoded.size == len(dumps(value))
        assert decode(encoded.root, store) == value


def reachable(root: str, store: dict[str, bytes]) -> dict[str, bytes]:
    """Return the chunks a root needs: what is left of a store whose other checkpoints were pruned."""
    found, todo = dict[str, bytes](), hashes_in(root)
    while todo:
        key = todo.pop()
        found[key] = store[key]
        todo.extend(hashes_in_chunk(store[key]))
    return found


@pytest.mark.parametrize(
    "place",
    [
        *PLACES,
        pytest.param(lambda texts: {"talk": [{"role": "user", "text": one} for one in texts.values()]}, id="messages"),
        pytest.param(lambda texts: {"live": {"1": {"node": "s", "journal": [*texts.values()]}}}, id="a step's calls"),
        pytest.param(lambda texts: {"by": {key: {"text": one} for key, one in texts.items()}, "i": 1}, id="dicts"),
        pytest.param(lambda texts: {key: one[-200:] for key, one in texts.items()}, id="pages"),
    ],
)
@given(st.lists(st.lists(st.tuples(st.integers(0, 69), st.integers(0, 3)), max_size=4), max_size=12), st.booleans())
@settings(deadline=None, max_examples=30)
def test_what_is_left_out_is_part_of_the_last_one(
    place: Callable[[Any], Any], changes: list[list[tuple[int, int]]], frozen: bool
) -> None:
    texts = {length: f"{length} text " * (length * 400) for length in range(4)}
    state: dict[str, Any] = {f"key {i}": f"{i} " * 900 for i in range(70)}
    encoded = encode({"body": {"state": place(state), "position": {}}}, frozen=frozen)
    store = dict(encoded.chunks)
    for step in changes:
        state = {**state, **{f"key {i}": texts[length] + str(i) for i, length in step}}
        for i, length in step:
            if (i + length) % 9 == 0:
                state.pop(f"key {i}", None)
        value = {"body": {"state": place(state), "position": {"changes": len(step)}}}
        encoded = encode(value, known=encoded.known, frozen=frozen)
        store = reachable(encoded.root, {**store, **encoded.chunks})
        assert encoded.root == encode(value).root
        assert encoded.size == len(dumps(value))
        assert decode(encoded.root, store) == value


def test_only_what_was_written_is_given_again() -> None:
    value = {"state": stretched(1, 2000)}
    first = encode(value, frozen=True)
    assert not first.reuses_chunks
    for again in (encode(value, known=first.known, frozen=True), encode(value, known=first.known)):
        assert (again.root, again.reuses_chunks) == (first.root, True)
        assert len(again.chunks) < len(first.chunks) / 10


def test_an_object_that_may_change_is_looked_into() -> None:
    value: dict[str, Any] = {"body": {"state": {"a": ["x" * 2000], "b": "y" * 5000}}}
    first = encode(value, frozen=True)
    value["body"]["state"]["a"][0] = "z" * 2000
    second = encode(value, known=first.known)
    assert decode(second.root, {**first.chunks, **second.chunks}) == value


def test_documents_that_may_change_are_looked_into() -> None:
    docs: dict[str, Any] = {f"doc {i}": f"{i} " * 900 for i in range(40)} | {"doc 8": ["8" * 2000]}
    value: dict[str, Any] = {"body": {"state": {"docs": docs, "a": 1}}}
    encoded = encode(value, frozen=True)
    store = dict(encoded.chunks)
    for letter in "uvwxyz":
        docs["doc 7"] = docs["doc 8"][0] = letter * 2000
        docs.pop("doc 3" if letter == "y" else "", None)
        encoded = encode(value, known=encoded.known)
        assert decode(encoded.root, store := store | encoded.chunks) == value


@pytest.mark.parametrize("size", [2000, 10_000])
def test_a_key_that_is_no_text_is_refused_in_big_values(size: int) -> None:
    with pytest.raises(ValueError, match="key 1"):
        encode({"body": {"state": {"a": {1: "x" * size}, "b": "y" * 5000}}})


@pytest.mark.parametrize("frozen", [False, True])
def test_messages_that_were_there_are_not_cut_again(frozen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    talk, cut = [{"role": "user", "text": f"{i} lorem ipsum " * 350} for i in range(200)], list[Any]()

    def list_part_noting(item: Any, *rest: Any) -> Any:
        cut.append(item)
        return chunks.list_part(item, *rest)

    monkeypatch.setattr(encoder, "list_part", list_part_noting)
    encoded = encode({"body": {"state": {"talk": talk}}}, frozen=frozen)
    new = {"role": "agent", "text": "new " * 800}
    for following in ([*talk, new], [new, *talk], [*talk[:90], new, *talk[90:]], talk[30:], [*talk, talk[0] | new]):
        cut.clear()
        found = encode({"body": {"state": {"talk": following}}}, known=encoded.known, frozen=frozen)
        assert len(cut) <= 1
        assert decode(found.root, {**encoded.chunks, **found.chunks})["body"]["state"]["talk"] == following
        assert found.root == encode({"body": {"state": {"talk": following}}}).root


def test_a_list_that_became_short_is_stored_as_a_short_one() -> None:
    encoded = encode({"body": {"state": {"talk": ["x" * 3000] * 9, "rest": "y" * 9000}}})
    for talk in (["short"], [], ["x" * 3000], ["short"] * 900, None):
        value = {"body": {"state": {"talk": talk, "rest": "y" * 9000}}}
        found = encode(value, known=encoded.known)
        assert found.root == encode(value).root
        assert decode(found.root, {**encoded.chunks, **found.chunks}) == value


def test_small_values_need_no_chunk() -> None:
    encoded = encode({"a": "x" * (INLINE - 20)})
    assert encoded.chunks == {}
    assert hashes_in(encoded.root) == []


def test_equal_parts_are_stored_once() -> None:
    part = [{"i": i, "text": "same"} for i in range(500)]
    assert len(encode([part, part, part]).chunks) <= len(encode([part]).chunks) + 3


def megabyte() -> dict[str, Any]:
    """Return a checkpoint's content of about 1 MB: 200 keys of 5 KB."""
    return {"body": {"state": {f"doc {i}": f"{i} lorem ipsum " * 350 for i in range(200)}, "position": {"at": 1}}}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("frozen", [False, True])
def test_changing_a_kilobyte_of_a_megabyte_writes_and_reads_little(
    frozen: bool, place: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at, pick, state = list[int](), random.Random(1), megabyte()["body"]["state"]

    def dumps_noting(value: Any) -> bytes:
        text = dumps(value)
        looked_at.append(len(text))
        return text

    monkeypatch.setattr(encoder, "dumps", dumps_noting)
    monkeypatch.setattr(chunks, "dumps", dumps_noting)
    encoded = encode({"body": {"state": place(state), "position": {"at": 1}}}, frozen=frozen)
    for _ in range(20):
        looked_at.clear()
        key, at = f"doc {pick.randrange(200)}", pick.randrange(4000)
        state = {**state, key: state[key][:at] + "".join(pick.choices("abcdef", k=1000)) + state[key][at + 1000 :]}
        encoded = encode({"body": {"state": place(state), "position": {"at": 1}}}, known=encoded.known, frozen=frozen)
        assert sum(map(len, encoded.chunks.values())) + len(encoded.root) <= 8192
        assert sum(looked_at) <= 16_384
    assert encoded.size > 900_000


def test_inserting_into_a_long_list_writes_little() -> None:
    value = [{"i": i, "text": f"entry {i}"} for i in range(20_000)]
    seen = set(encode(value).chunks)
    value.insert(700, {"i": -1, "text": "new"})
    encoded = encode(value)
    assert sum(len(data) for key, data in encoded.chunks.items() if key not in seen) <= 8192


def test_every_chunk_is_reachable_from_the_root() -> None:
    encoded = encode(megabyte())
    found, todo = set(), hashes_in(encoded.root)
    while todo:
        key = todo.pop()
        found.add(key)
        todo.extend(hashes_in_chunk(encoded.chunks[key]))
    assert found == set(encoded.chunks)


@pytest.mark.parametrize("value", [{"a": [1, "é", None]}, ["x" * 3000, "y" * 3000]], ids=["inline", "tree"])
def test_every_changed_character_of_a_root_is_noticed(value: Any) -> None:
    encoded = encode(value)
    for at, char in enumerate(encoded.root):
        changed = encoded.root[:at] + ("0" if char != "0" else "1") + encoded.root[at + 1 :]
        with pytest.raises(Damaged):
            decode(changed, encoded.chunks)


def test_a_changed_or_missing_chunk_is_noticed() -> None:
    encoded = encode(megabyte())
    key = next(iter(encoded.chunks))
    with pytest.raises(Damaged):
        verify_chunks([(key, encoded.chunks[key] + b" ")])
    with pytest.raises(Damaged):
        decode(encoded.root, {k: d for k, d in encoded.chunks.items() if k != key})


@pytest.mark.parametrize("bad", [float("nan"), float("-inf"), {"a": [float("nan")]}, object(), "\ud800"])
def test_what_json_cannot_say_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode({"state": bad, "padding": "x" * 10_000})


def test_words_that_look_like_numbers_are_fine() -> None:
    assert read(encode({"NaN": "Infinity", "text": "NaN"})) == {"NaN": "Infinity", "text": "NaN"}


def test_a_chunk_that_is_no_bytes_any_more_is_damaged() -> None:
    with pytest.raises(Damaged, match="no bytes"):
        verify_chunks([("0" * 40, "text")])  # type: ignore[list-item]


def megabyte_of_state() -> dict[str, Any]:
    """Return a state of 200 keys of 5 KB."""
    return {f"key {i:03d}": f"{i:04d} " * 1000 for i in range(200)}


def changed(state: dict[str, Any], n: int) -> dict[str, Any]:
    """Return the state with 1 KB of one key changed, all other values the same objects."""
    key = f"key {n * 7 % 200:03d}"
    return {**state, key: f"{n:08d}" + "x" * 992 + state[key][1000:]}


def holding(run: RunId, n: int, state: dict[str, Any]) -> Checkpoint:
    return checkpoint(run, n, body={"state": state, "position": {"next": n}})


async def commit_steps(
    world: DatabaseWorld, run: RunId, steps: range, state: dict[str, Any], claim: Claim | None = None
) -> list[Checkpoint]:
    """Commit one checkpoint per step as the engine does; returns them."""
    made = []
    for n in steps:
        state = changed(state, n)
        made.append(holding(run, n, state))
        await world.storage.commit(Commit(run=run, checkpoint=made[-1], frozen=True), claim=claim)
    return made


async def stored_bytes(world: DatabaseWorld, run: RunId) -> int:
    def count() -> int:
        chunks = models.Chunk.objects.using(world.alias).filter(family=run).values_list("data", flat=True)
        bodies = models.Checkpoint.objects.using(world.alias).filter(run_id=run).values_list("body", flat=True)
        return sum(len(bytes(data)) for data in chunks) + sum(map(len, bodies))

    return await world._do(count)


async def check_all(world: DatabaseWorld, made: list[Checkpoint]) -> None:
    for one in made:
        assert (await world.storage.load(one.run, one.id)).body == one.body


async def test_a_step_writes_what_it_changed_and_disk_grows_linearly(database: DatabaseWorld) -> None:
    run = new_run_id()
    made = await commit_steps(database, run, range(1, 2), megabyte_of_state())
    first = await stored_bytes(database, run)
    made += await commit_steps(database, run, range(2, 12), made[-1].body["state"])
    after_ten = await stored_bytes(database, run) - first
    made += await commit_steps(database, run, range(12, 32), made[-1].body["state"])
    after_thirty = await stored_bytes(database, run) - first
    assert first < 1.2 * 1_000_000
    assert after_ten <= 10 * 8192
    assert after_thirty <= 3.3 * after_ten
    await check_all(database, made)


async def test_content_whose_objects_may_change_is_written_as_it_is_now(database: DatabaseWorld) -> None:
    run, body = new_run_id(), {"state": {"list": ["x" * 3000] * 3, "rest": "y" * 5000}, "position": {}}
    made = []
    for n in range(1, 4):
        body["state"]["list"].append(str(n) * 3000)  # type: ignore[index,union-attr]
        made.append(checkpoint(run, n, body=body).model_copy(deep=True))
        await database.storage.commit(Commit(run=run, checkpoint=checkpoint(run, n, id=made[-1].id, body=body)))
    await check_all(database, made)


async def test_what_was_pruned_away_behind_its_back_is_written_again(database: DatabaseWorld) -> None:
    run = new_run_id()
    made = await commit_steps(database, run, range(1, 4), megabyte_of_state())
    for one in made:
        await database.storage.delete(run, one.id)
    assert await database.storage.prune(run, []) == 0
    rest = await commit_steps(database, run, range(4, 6), made[-1].body["state"])
    await check_all(database, rest)


async def test_nothing_leans_on_what_is_quarantined(database: DatabaseWorld) -> None:
    run = new_run_id()
    made = await commit_steps(database, run, range(1, 3), megabyte_of_state())
    await database.damage_chunk(run)
    with pytest.raises(Damaged):
        await database.storage.load(run, made[-1].id)
    rest = await commit_steps(database, run, range(3, 5), made[-1].body["state"])
    await check_all(database, rest)


async def test_a_chunk_that_rotted_is_healed_by_the_same_content(database: DatabaseWorld) -> None:
    run = new_run_id()
    saved = holding(run, 1, megabyte_of_state())
    await database.storage.save(saved)
    await database.damage_chunk(run)
    with pytest.raises(Damaged):
        await database.storage.load(run, saved.id)
    again = holding(run, 2, megabyte_of_state())
    await database.storage.save(again)
    await check_all(database, [again])


async def test_a_lost_claim_leaves_nothing_remembered(database: DatabaseWorld) -> None:
    run = new_run_id()
    await database.storage.commit(started(run))
    claim = await claimed(database, run)
    made = await commit_steps(database, run, range(1, 3), megabyte_of_state(), claim)
    await database.cancel(run)
    with pytest.raises(ClaimLost):
        await commit_steps(database, run, range(3, 4), made[-1].body["state"], claim)
    assert await database.storage.list_checkpoint_ids(run) == [CheckpointId(one.id) for one in reversed(made)]
    assert database.storage._encoder_cache.get(run) is None
    await check_all(database, made)


async def test_another_worker_goes_on_from_what_the_first_one_wrote(database: DatabaseWorld) -> None:
    run, other = new_run_id(), DatabaseWorld(database.alias)
    made = await commit_steps(database, run, range(1, 4), megabyte_of_state())
    latest = await other.storage.get_latest(run)
    assert latest is not None
    theirs = await commit_steps(other, run, range(4, 7), latest.body["state"])
    ours = await commit_steps(database, run, range(7, 9), made[-1].body["state"])
    await check_all(database, [*made, *theirs, *ours])
    await other.storage.aclose()


async def test_a_run_that_parks_is_forgotten(database: DatabaseWorld) -> None:
    run = new_run_id()
    made = await commit_steps(database, run, range(1, 3), megabyte_of_state())
    assert len(database.storage._encoder_cache) == 1
    parked = Commit(run=run, checkpoint=holding(run, 3, made[-1].body["state"]), standing=Standing(phase=Phase.PAUSED))
    await database.storage.commit(parked)
    assert len(database.storage._encoder_cache) == 0


def update(heads: EncoderCache, run: RunId, size: int = 10_000, **commit: object) -> None:
    """Have a checkpoint of about that size remembered."""
    made = checkpoint(run, body={"state": {"a": "x" * size, "b": "y"}})
    heads.update(Commit(run=run, checkpoint=made, **commit), encode({"body": made.body}))  # type: ignore[arg-type]


def test_the_run_written_longest_ago_is_forgotten_first() -> None:
    heads, runs = EncoderCache(runs=2), [new_run_id() for _ in range(3)]
    for run in (runs[0], runs[1], runs[0], runs[2]):
        update(heads, run)
    assert [heads.get(run) is None for run in runs] == [False, True, False]


def test_memory_is_bounded_by_bytes_too() -> None:
    heads, runs = EncoderCache(max_bytes=50_000), [new_run_id() for _ in range(10)]
    for run in runs:
        update(heads, run)
    assert len(heads) == 4
    update(heads, new_run_id(), size=60_000)
    assert len(heads) == 0


def test_small_content_is_not_remembered() -> None:
    heads, run = EncoderCache(), new_run_id()
    update(heads, run)
    update(heads, run, size=100)
    assert heads.get(run) is None


def test_a_run_that_is_let_go_of_is_forgotten() -> None:
    heads, run = EncoderCache(), new_run_id()
    update(heads, run)
    update(heads, run, standing=Standing(phase=Phase.WAITING))
    assert len(heads) == 0


def test_events_alone_change_nothing() -> None:
    heads, run = EncoderCache(), new_run_id()
    update(heads, run)
    heads.update(Commit(run=run), None)
    assert heads.get(run) is not None


OLD, NEW = "an-old-secret-long-enough-to-be-one", "a-new-secret-long-enough-to-be-one"
ROW = ("request", "r1", "card")


@pytest.fixture(
    params=["", "plain", OLD, f"{NEW},{OLD}", f"{OLD},plain", f"plain,{OLD}", [NEW, OLD], [], (OLD, "plain")]
)
def encryptor(request: pytest.FixtureRequest) -> Encryptor:
    """Give each kind of ring in turn."""
    return encryptor_of(request.param)


@pytest.mark.parametrize("text", ["", "ä\x00b", MARK, f"{MARK}x:y", "x" * 10_000])
def test_what_is_sealed_opens_to_itself(encryptor: Encryptor, text: str) -> None:
    assert encryptor.decrypt(encryptor.encrypt(text, *ROW), *ROW) == text


@pytest.mark.parametrize("text", ["null", "1", '"a"', '{"b":1,"a":2}', f'"{MARK}x:y"', f'{{"sealed":"{MARK}x:y"}}'])
def test_a_sealed_document_is_a_document(encryptor: Encryptor, text: str) -> None:
    for clear in (frozenset[str](), frozenset({"a"})):
        assert encryptor.decrypt_document(encryptor.encrypt_document(text, *ROW, clear=clear), *ROW) == text


def test_a_sealed_document_shows_what_is_clear_and_nothing_else() -> None:
    stored = encryptor_of(OLD).encrypt_document('{"activation":3,"output":"canary"}', *ROW, clear={"activation"})
    assert '"activation":3' in stored
    assert "canary" not in stored


def test_a_chunk_is_the_same_bytes_each_time_and_found_in_its_family_alone() -> None:
    encryptor = encryptor_of(OLD)
    first, again = (encryptor.encrypt_chunk(b'{"v":1}', "f", "k") for _ in range(2))
    assert first == again
    assert encryptor.decrypt_chunk(first, "f", encryptor.name("f", "k")) == b'{"v":1}'
    assert encryptor.name("f", "k") != encryptor.name("g", "k")
    assert first != encryptor.encrypt_chunk(b'{"v":1}', "g", "k")
    for elsewhere in (("g", "k"), ("f", "j")):
        with pytest.raises(Damaged, match="another row"):
            encryptor.decrypt_chunk(first, elsewhere[0], encryptor.name(*elsewhere))


def test_no_two_sealings_of_a_text_look_alike() -> None:
    encryptor = encryptor_of(OLD)
    assert encryptor.encrypt("a", *ROW) != encryptor.encrypt("a", *ROW)


def test_what_was_written_for_another_row_is_damage() -> None:
    encryptor = encryptor_of(OLD)
    stored = encryptor.encrypt("a", *ROW)
    for row in (("request", "r2", "card"), ("answer", "r1", "card"), ("request", "r1", "suggestion")):
        with pytest.raises(Damaged, match="another row"):
            encryptor.decrypt(stored, *row)


def test_a_changed_character_is_damage() -> None:
    encryptor = encryptor_of(OLD)
    stored = encryptor.encrypt("a text", *ROW)
    at = len(stored) - 6
    for changed in (stored[:at] + ("A" if stored[at] != "A" else "B") + stored[at + 1 :], stored[:-8], stored + "!"):
        with pytest.raises(Damaged):
            encryptor.decrypt(changed, *ROW)


def test_every_key_of_the_ring_opens_and_the_first_seals() -> None:
    old, both = encryptor_of(OLD), encryptor_of(f"{NEW}, {OLD}")
    stored = old.encrypt("a", *ROW)
    assert both.decrypt(stored, *ROW) == "a"
    assert (old.is_current(stored), both.is_current(stored)) == (True, False)
    assert set(both.names("f", ["k"])) == {old.name("f", "k"), both.name("f", "k")}


def test_a_missing_key_is_named() -> None:
    stored = encryptor_of(OLD).encrypt("a", *ROW)
    with pytest.raises(Locked, match="WFDASH_ENCRYPTION_KEYS"):
        encryptor_of(NEW).decrypt(stored, *ROW)
    with pytest.raises(Locked, match="add that key"):
        encryptor_of("").decrypt_document(f'"{stored}"', *ROW)


def test_plain_content_opens_only_where_plain_is_listed() -> None:
    assert encryptor_of(f"{OLD},plain").decrypt("a", *ROW) == "a"
    for read in (
        lambda s: s.decrypt("a", *ROW),
        lambda s: s.decrypt_document("1", *ROW),
        lambda s: s.decrypt_chunk(b"{", "f", "k"),
    ):
        with pytest.raises(Locked, match="add plain"):
            read(encryptor_of(OLD))


def test_a_short_key_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="32 characters"):
        encryptor_of("short")


def test_only_a_stored_document_looks_sealed() -> None:
    assert encrypted_text_in({"sealed": "no"}) is None
    assert encrypted_text_in([MARK]) is None
    assert encrypted_text_in({"sealed": f"{MARK}k:x"}) == f"{MARK}k:x"


def test_a_list_of_keys_is_what_the_same_keys_with_commas_are() -> None:
    assert encryptor_of([f" {NEW}", OLD, ""]) is encryptor_of(f"{NEW}, {OLD}")
    for wrong in ([f"{NEW},{OLD}"], [NEW, None], None, {NEW: OLD}):
        with pytest.raises(InvalidConfig, match="WFDASH_ENCRYPTION_KEYS: give a list of texts"):
            encryptor_of(wrong)  # type: ignore[arg-type]
