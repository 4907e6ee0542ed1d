from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model

from checkpoints.models import SignInLink
from wfdash.access.signin.links import create_link, find_link, use_link
from wfdash.domain.errors import NotFound

pytestmark = pytest.mark.django_db


@pytest.fixture
def ana():
    return get_user_model().objects.create_user("ana")


def secret_of(link: str) -> str:
    return link.rstrip("/").rsplit("/", 1)[-1]


def test_a_link_signs_its_person_in_once(ana) -> None:
    secret = secret_of(create_link(ana, base="http://127.0.0.1:8000"))
    assert use_link(secret) == ana
    with pytest.raises(NotFound, match="already been used"):
        use_link(secret)


def test_looking_at_a_link_does_not_use_it_up(ana) -> None:
    secret = secret_of(create_link(ana))
    find_link(secret)
    assert use_link(secret) == ana


def test_an_expired_link_is_refused(ana) -> None:
    secret = secret_of(create_link(ana, lifetime=timedelta(seconds=-1)))
    with pytest.raises(NotFound, match="expired"):
        use_link(secret)


def test_a_link_of_someone_who_left_is_refused(ana) -> None:
    secret = secret_of(create_link(ana))
    ana.is_active = False
    ana.save(update_fields=["is_active"])
    with pytest.raises(NotFound):
        use_link(secret)


def test_the_secret_itself_is_not_stored(ana) -> None:
    assert secret_of(create_link(ana)) not in str(SignInLink.objects.values().get())
