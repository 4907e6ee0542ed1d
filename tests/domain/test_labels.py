"""One label for a name, wherever it is shown; what an author wrote stays as it is."""

from __future__ import annotations

import pytest

from wfdash.domain.labels import humanize, label_of_field, label_of_key, label_of_name, label_of_step, label_of_type


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("send_on", "Send on"),
        ("us_account", "US account"),
        ("contact_us", "Contact us"),
        ("bic", "BIC"),
        ("invoice-ids", "Invoice IDs"),
        ("_private_", "Private"),
        ("", ""),
        ("__", "__"),
        ("größe_in_m", "Größe in m"),
    ],
)
def test_a_name_reads_as_words(name, label):
    assert humanize(name) == label


@pytest.mark.parametrize(
    ("name", "title", "label"),
    [
        ("customer_reference", "Customer Reference", "Customer reference"),
        ("customer_id", "Customer Id", "Customer ID"),
        ("id", None, "ID"),
        ("identity", "", "Identity"),
        ("sent", "Sent On", "Sent On"),
        ("us_account", "Us Account", "US account"),
    ],
)
def test_a_label_is_the_author_s_title_and_not_the_one_that_pydantic_makes(name, title, label):
    assert label_of_field(name, title) == label


@pytest.mark.parametrize("key", ["Net price", "orderId", "kWh", "k8s.pod", "2026", "a b", "Größe", "IBAN", "a/b", ""])
def test_a_key_that_is_no_name_of_code_stays(key):
    assert label_of_key(key) == key


@pytest.mark.parametrize(
    ("name", "label"),
    [("UsAccount", "US account"), ("Bic", "BIC"), ("IBANCheck", "IBAN check"), ("My type", "My type"), ("x_y", "x_y")],
)
def test_a_class_name_reads_as_words(name, label):
    assert label_of_type(name) == label


@pytest.mark.parametrize(
    ("step", "label"),
    [
        ("try_out", "Try out"),
        ("part/look_at_id", "Look at ID"),
        ("WriterAgent", "Writer agent"),
        ("planTrip", "Plan trip"),
        ("HumanReview.after_model", "Human review: after model"),
        ("library.module.OwnReview.before", "Own review: before"),
        ("Travel planner", "Travel planner"),
        ("OAuth", "OAuth"),
        ("größeMessen", "GrößeMessen"),
        ("S3", "S3"),
        ("a/", "A/"),
        ("1.", "1."),
    ],
)
def test_a_step_of_any_library_reads_as_words(step, label):
    assert label_of_step(step) == label


def test_a_name_in_camel_case_reads_as_one_with_underscores():
    assert label_of_name("payOut") == label_of_name("pay_out") == "Pay out"
