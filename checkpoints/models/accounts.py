"""Tables of accounts: roles, tokens, service accounts, one-time links, counts of failed attempts, second factors."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from checkpoints.models.fields import CharField, EncryptedTextField, JsonField, MomentField

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

    ROLES = [(role, role) for role in ("viewer", "reviewer", "author", "operator", "admin")]

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


class ServiceAccount(models.Model):
    """A user that is a program: no password, no sign-in, no mail. It acts by its tokens alone."""

    user = models.OneToOneField(PERSON, primary_key=True, on_delete=models.CASCADE, related_name="service_account")
    about = CharField(max_length=300, blank=True)
    """What it is for, in a few words."""
    created = MomentField()

    def __str__(self) -> str:
        return f"service account {self.user_id}"


class Token(models.Model):
    """A secret by which a program acts as its owner, within its scopes: the hash of the secret, never the secret."""

    id = CharField(max_length=12, primary_key=True)
    """The part of it that may be shown."""
    secret_hash = CharField(max_length=64)
    name = CharField(max_length=80)
    owner = models.ForeignKey(PERSON, on_delete=models.CASCADE, related_name="tokens")
    rights = JsonField()
    """A list of the rights that it may use, of those its owner has."""
    workflows = JsonField()
    """A list of the workflows it may be used for; ``*``: every one."""
    created = MomentField()
    created_by = models.ForeignKey(PERSON, null=True, on_delete=models.SET_NULL, related_name="+")
    expires = MomentField(null=True)
    used = MomentField(null=True)
    """When it was last used, to the minute."""
    revoked = MomentField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "name"], condition=Q(revoked__isnull=True), name="one_token_per_name_and_owner"
            )
        ]

    def __str__(self) -> str:
        return f"token {self.name} of {self.owner_id}"
