"""People with a UUID and an email address, and nothing else that Django's own user has; and what they ordered."""

from __future__ import annotations

import uuid

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import PermissionsMixin
from django.db import models


class People(BaseUserManager):
    def create_user(self, email: str, password: str | None = None, **more: object) -> Person:
        person = self.model(email=email, **more)
        person.set_password(password)
        person.save()
        return person


class Person(AbstractBaseUser, PermissionsMixin):
    key = models.UUIDField(primary_key=True, default=uuid.uuid4, db_column="order")
    email = models.EmailField(unique=True, db_column="address")
    is_active = models.BooleanField(default=True)
    objects = People()
    USERNAME_FIELD = "email"

    class Meta:
        db_table = "user"


class Order(models.Model):
    goods = models.TextField()

    def __str__(self) -> str:
        return self.goods
