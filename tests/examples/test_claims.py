from __future__ import annotations

from decimal import Decimal

import pytest

from wfdash.examples.claims import SAMPLE, Claim, read_claims, write_payments

HEAD = "id,employee,date,category,amount,currency,description\n"


def test_the_sample_is_about_two_hundred_rows_some_large_some_dirty():
    claims, dirty = read_claims(SAMPLE)
    assert (len(claims), len(dirty)) == (188, 14)
    assert sum(claim.euros > 500 for claim in claims) == 10
    assert sum(claim.euros > 2500 for claim in claims) == 3
    assert {claim.currency for claim in claims} == {"EUR", "USD", "GBP", "CHF", "SEK"}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('E-1,Kofi,2026-10-05,meals,"12,50",EUR,Lunch', "line 2: amount '12,50': input should be a valid decimal"),
        ("E-1,Kofi,2026-10-05,meals,,EUR,Lunch", "line 2: amount ''"),
        ("E-1,Kofi,2026-10-05,meals,-3.00,EUR,Lunch", "line 2: amount '-3.00': input should be greater than 0"),
        ("E-1,Kofi,2026-10-05,meals,NaN,EUR,Lunch", "line 2: amount 'NaN'"),
        ("E-1,Kofi,2026-10-05,meals,1e30,EUR,Lunch", "line 2: amount '1e30'"),
        ("E-1,Kofi,31/10/2026,meals,3.00,EUR,Lunch", "line 2: date '31/10/2026'"),
        ("E-1,Kofi,,meals,3.00,EUR,Lunch", "line 2: date ''"),
        ("E-1,,2026-10-05,meals,3.00,EUR,Lunch", "line 2: employee ''"),
        ("E-1,=cmd(),2026-10-05,meals,3.00,EUR,Lunch", "line 2: employee '=cmd()'"),
        ("E-1,Kofi,2026-10-05,meals,3.00,JPY,Lunch", "line 2: currency 'JPY'"),
        ("E-1,Kofi", "line 2: date"),
    ],
)
def test_a_dirty_row_is_left_out_and_named(row: str, reason: str):
    claims, dirty = read_claims(HEAD + row + "\n")
    assert claims == []
    assert len(dirty) == 1
    assert dirty[0].startswith(reason)


def test_the_same_claim_counts_once_under_any_id():
    row = "Kofi,2026-10-05,meals,3.00,EUR,Lunch\n"
    other = "E-1,Jana,2026-10-06,meals,4.00,EUR,Lunch\n"
    claims, dirty = read_claims(f"{HEAD}E-1,{row}E-2,{row}{other}")
    assert [claim.id for claim in claims] == ["E-1"]
    assert dirty == ["line 3: E-2 was already submitted", "line 4: E-1 was already submitted"]


def test_a_file_from_a_spreadsheet_is_read_too():
    text = "\ufeff" + (HEAD + "E-1,Kofi,2026-10-05,meals,3.00,EUR,Lunch\n").replace("\n", "\r\n")
    assert [claim.id for claim in read_claims(text)[0]] == ["E-1"]


def test_a_file_with_other_columns_has_no_sound_row():
    assert read_claims("a,b\n1,2,3\n")[0] == []
    assert read_claims("") == ([], [])


def test_payments_are_summed_per_employee_in_euros():
    def claim(number: int, name: str, amount: str, currency: str = "EUR") -> Claim:
        date = "2026-10-05"
        row = {"id": f"E-{number}", "employee": name, "date": date, "category": "meals", "description": "Lunch"}
        return Claim.model_validate({**row, "amount": Decimal(amount), "currency": currency})

    claims = [claim(1, "Nora", "100.00", "SEK"), claim(2, "Kofi", "10.10"), claim(3, "Nora", "0.90")]
    assert write_payments(claims) == "employee,euros,claims\nKofi,10.10,E-2\nNora,10.00,E-1 E-3\n"
    assert write_payments([]) == "employee,euros,claims\n"
