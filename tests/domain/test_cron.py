"""When cron fires: around real changes of clocks, forwards and backwards; and what is said of what cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from wfdash.domain.cron import ALL, LATE, BadCron, Cron, parse, turn, zones

MINUTE = timedelta(minutes=1)
CHANGES = {
    "Europe/Berlin": ("2027-03-28T01:00Z", "2027-10-31T01:00Z"),
    "America/New_York": ("2027-03-14T07:00Z", "2027-11-07T06:00Z"),
    "Australia/Lord_Howe": ("2026-10-03T15:30Z", "2027-04-03T15:00Z"),
    "Africa/Cairo": ("2027-04-29T22:00Z", "2027-10-28T21:00Z"),
    "Asia/Kolkata": ("2027-03-28T01:00Z",),
}


def at(text: str, zone: str = "UTC") -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def fires(text: str, zone: str, since: str, count: int = 3) -> list[str]:
    cron = parse(text, zone)
    return [moment.astimezone(cron.zone).strftime("%d %H:%M %z") for moment in cron.after(at(since, zone), count)]


@pytest.mark.parametrize(
    ("text", "zone", "since", "expected"),
    [
        ("30 2 * * *", "Europe/Berlin", "2027-03-27T12:00", ["28 03:00 +0200", "29 02:30 +0200"]),
        ("30 2 * * *", "America/New_York", "2027-03-13T12:00", ["14 03:00 -0400", "15 02:30 -0400"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", ["04 02:30 +1100", "05 02:15 +1100"]),
        ("0 0 * * *", "Africa/Cairo", "2027-04-29T12:00", ["30 01:00 +0300", "01 00:00 +0300"]),
    ],
)
def test_a_time_that_is_skipped_fires_once_right_after_the_gap(text, zone, since, expected) -> None:
    assert fires(text, zone, since, 2) == expected
    cron = parse(text, zone)
    instead, ordinary = cron.after(at(since, zone), 2)
    missing = cron.skipped(instead)
    assert missing is not None
    assert missing.minute == ordinary.astimezone(cron.zone).minute
    assert missing.hour == ordinary.astimezone(cron.zone).hour
    assert cron.skipped(ordinary) is None


def test_a_time_right_after_the_gap_is_its_own() -> None:
    for text in "0 3 * * *", "*/30 * * * *":
        cron = parse(text, "Europe/Berlin")
        (moment,) = cron.after(at("2027-03-28T01:30", "Europe/Berlin") + timedelta(minutes=29))
        assert (moment, cron.skipped(moment)) == (at("2027-03-28T01:00"), None), text


@pytest.mark.parametrize(
    ("text", "zone", "since", "expected"),
    [
        ("30 2 * * *", "Europe/Berlin", "2027-10-30T12:00", ["31 02:30 +0200", "01 02:30 +0100"]),
        ("30 1 * * *", "America/New_York", "2027-11-06T12:00", ["07 01:30 -0400", "08 01:30 -0500"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2027-04-03T12:00", ["04 01:45 +1100", "05 01:45 +1030"]),
        ("*/30 2 * * *", "Europe/Berlin", "2027-10-31T01:00", ["31 02:00 +0200", "31 02:30 +0200", "01 02:00 +0100"]),
    ],
)
def test_a_time_that_comes_twice_fires_once(text, zone, since, expected) -> None:
    assert fires(text, zone, since, len(expected)) == expected


def test_what_goes_on_all_day_goes_on_through_both_hours() -> None:
    twice = fires("*/30 * * * *", "Europe/Berlin", "2027-10-31T01:45", 5)
    assert twice == ["31 02:00 +0200", "31 02:30 +0200", "31 02:00 +0100", "31 02:30 +0100", "31 03:00 +0100"]
    assert fires("30 * * * *", "Europe/Berlin", "2027-03-28T01:00", 2) == ["28 01:30 +0100", "28 03:30 +0200"]


def test_what_goes_on_all_day_is_found_in_both_ends_of_a_day() -> None:
    cron = parse("0 * 28 * *", "Africa/Cairo")
    past = cron.until(at("2027-10-30T12:00", "Africa/Cairo"), 3)
    said = [moment.astimezone(cron.zone).strftime("%d %H:%M %z") for moment in past]
    assert said == ["28 22:00 +0300", "28 23:00 +0300", "28 23:00 +0200"]


MINUTES = st.sampled_from(["0", "15", "30", "*/20", "*", "5,45", "59"])
HOURS = st.sampled_from(["*", "0", "1", "2", "3", "*/2", "0-3", "23", "1,2"])
DAYS = st.sampled_from(["*", "28", "L", "1-7", "*/2"])


@settings(deadline=None, max_examples=30)
@given(data=st.data(), minute=MINUTES, hour=HOURS, day=DAYS, zone=st.sampled_from(sorted(CHANGES)))
def test_around_a_change_of_clocks_it_fires_when_the_clock_on_the_wall_says_so(data, minute, hour, day, zone) -> None:
    change = datetime.fromisoformat(data.draw(st.sampled_from(CHANGES[zone])))
    begin = change - timedelta(minutes=data.draw(st.integers(0, 1600)))
    cron = parse(f"{minute} {hour} {day} * *", zone)
    end = change + timedelta(hours=30)
    wanted = expected(cron, begin, end)
    assert [moment for moment in cron.after(begin, len(wanted) + 1) if moment <= end] == wanted
    assert [moment for moment in cron.until(end, len(wanted)) if moment > begin] == wanted


def expected(cron: Cron, begin: datetime, end: datetime) -> list[datetime]:
    """Look at the clock every minute: those that match; and, unless the hour is ``*``, those that the clock skips."""
    minute, hour, day, *_ = cron.text.split()
    found, seen, previous = [], set(), None
    moment = begin.replace(second=0, microsecond=0) - timedelta(hours=30)
    while moment <= end:
        wall = moment.astimezone(cron.zone).replace(tzinfo=None, fold=0)
        skipped = previous is not None and wall - previous > MINUTE and hour != "*"
        shown = [previous + MINUTE * n for n in range(1, (wall - previous) // MINUTE + 1)] if skipped else [wall]
        fresh = [one for one in shown if hour == "*" or one not in seen]
        if any(fits(one, minute, hour, day) for one in fresh):
            found.append(moment)
        seen |= set(shown)
        previous, moment = wall, moment + MINUTE
    return [moment for moment in found if begin < moment]


def fits(wall: datetime, minute: str, hour: str, day: str) -> bool:
    last = (wall + timedelta(days=1)).day == 1
    return (
        covers(minute, wall.minute) and covers(hour, wall.hour) and (last if day == "L" else covers(day, wall.day, 1))
    )


def covers(field: str, value: int, first: int = 0) -> bool:
    if "*/" in field:
        return (value - first) % int(field[2:]) == 0
    if "-" in field:
        low, high = map(int, field.split("-"))
        return low <= value <= high
    return field == "*" or value in map(int, field.split(","))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("61 * * * *", "The minute, at character 1, is “61”: use 0-59"),
        ("0 9 * * MON-FRY", "The day of the week, at character 9, is “MON-FRY”"),
        ("0 9,,10 * * *", "The hour, at character 4, is nothing between two commas"),
        ("* * *", "got 3"),
        ("0 0 * * * *", "got 6"),
        ("", "got 0"),
        ("@dayly", "Use one of @hourly"),
        ("0 0 30 2 *", "Never runs"),
        ("0 0 */31 2 MON#5", "Never runs"),
        ("0 0 * * " + "1," * 120 + "1", "At most 200 characters"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place_and_the_remedy(text, words) -> None:
    with pytest.raises(BadCron, match=words.replace("*", ".")) as caught:
        parse(text)
    assert caught.value.field == "cron"


@pytest.mark.parametrize("zone", ["Mars/Base", "", "../etc/passwd", "europe/berlin", "x" * 500])
def test_an_unknown_zone_is_refused(zone) -> None:
    with pytest.raises(BadCron, match="Unknown time zone") as caught:
        parse("0 9 * * *", zone)
    assert caught.value.field == "zone"


@settings(deadline=None)
@given(st.text("0123456789*/,-#L W@MONJAN²", max_size=40))
def test_any_text_is_an_expression_or_refused(text) -> None:
    try:
        cron = parse(text)
    except BadCron:
        return
    assert cron.words
    assert cron.after(datetime.now(UTC))


@settings(deadline=None)
@given(st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)), st.sampled_from(["7 * * * *", "30 2 * * 1-5"]))
def test_forwards_and_backwards_agree(moment, text) -> None:
    cron, now = parse(text, "Europe/Berlin"), moment.replace(tzinfo=UTC)
    (following,) = cron.after(now)
    (before,) = cron.until(now)
    assert before <= now < following
    assert cron.after(before) == [following]
    assert cron.until(following - timedelta(microseconds=1)) == [before]
    assume(before != now)
    assert cron.until(before) == [before]


def test_names_and_words_of_people() -> None:
    assert parse("@daily").words == "At 00:00 every day"
    assert parse("0 9 * * mon-fri").words == "At 09:00 on Monday through Friday"
    assert {"Europe/Berlin", "UTC"} <= set(zones())


@settings(deadline=None)
@given(
    since=st.datetimes(datetime(2026, 3, 1), datetime(2026, 11, 30)).map(lambda moment: moment.replace(tzinfo=UTC)),
    gaps=st.lists(st.integers(0, 100_000), min_size=1, max_size=3),
    missed=st.sampled_from(["skip", "once", "all"]),
    text=st.sampled_from(["30 2 * * *", "0 */3 * * *", "*/20 * * * *", "0 9 * * MON-FRI"]),
)
def test_however_late_it_is_looked_at_each_time_that_counts_fires_once(since, gaps, missed, text) -> None:
    cron = parse(text, "Europe/Berlin")
    (due,), now, fired = cron.after(since), since, []
    for gap in gaps:
        before, now = now, now + timedelta(seconds=gap)
        begun = len(fired)
        while due <= now:
            came = turn(cron, due, now, missed)
            fired += [came.fires] if came.fires else []
            due = came.following
        passed = [at for at in cron.until(now, ALL) if at > before]
        wanted = {"all": passed, "once": passed[-1:], "skip": [at for at in passed[-1:] if now - at <= LATE]}
        assert fired[begun:] == wanted[missed]
        assert due == cron.after(now)[0]
    assert len(set(fired)) == len(fired)
