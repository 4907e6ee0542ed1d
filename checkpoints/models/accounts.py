"""Tables of accounts: roles, one-time links, counts of failed attempts, and second factors."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from checkpoints.models.fields import CharField, EncryptedTextField, MomentField

PERSON = settings.AUTH_USER_MODEL


class SignInLink(models.Model):
    """A one-time sign-in link: the hash of its secret, used once, short-lived."""

    secret_hash = CharField(max_length=64, unique=True)
    user = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="+")
    created = MomentField(auto_now_add=True)
    expires = MomentField()
    used = MomentField(null=True)

    def __str__(self) -> str:
        return f"sign-in link for {self.user_id}"


class SignInTries(models.Model):
    """Attempts since ``began``: failed sign-ins of a name, address, browser or all; actions of one kind of a person."""

    key = CharField(max_length=64, primary_key=True)
    began = MomentField()
    count = models.IntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.count} tries of {self.key}"


class SecondFactor(models.Model):
    """A person's authenticator: its code is required at sign-in once it is ``confirmed``."""

    user = models.OneToOneField(PERSON, primary_key=True, on_delete=models.CASCADE, related_name="second_factor")
    secret = EncryptedTextField("second-factor", ("user_id",))
    """The TOTP key in base 32 (RFC 6238: SHA-1, six digits, 30 seconds)."""
    created = MomentField()
    confirmed = MomentField(null=True)
    last_step = models.BigIntegerField(default=0)
    """The 30-second step of the last accepted code: this one and earlier ones are not accepted again."""

    def __str__(self) -> str:
        return f"second factor of {self.user_id}"


class RecoveryCode(models.Model):
    """A code that replaces the authenticator once: only its hash is stored."""

    user = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="recovery_codes")
    code_hash = CharField(max_length=64)
    used = MomentField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "code_hash"], name="one_row_per_recovery_code")]

    def __str__(self) -> str:
        return f"recovery code of {self.user_id}"


class Grant(models.Model):
    """A person's or group's role for one workflow, or for all (``*``)."""

    ROLES = [("viewer", "viewer"), ("reviewer", "reviewer"), ("operator", "operator"), ("admin", "admin")]

    user = models.ForeignKey(PERSON, null=True, blank=True, on_delete=models.CASCADE, related_name="grants")
    group = models.ForeignKey("auth.Group", null=True, blank=True, on_delete=models.CASCADE, related_name="grants")
    workflow = CharField(max_length=200, default="*")
    role = CharField(max_length=10, choices=ROLES)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=False, group__isnull=True) | Q(user__isnull=True, group__isnull=False),
                name="grant_to_a_person_or_a_group",
            )
        ]

    def __str__(self) -> str:
        return f"{self.user or self.group}: {self.role} of {self.workflow}"
