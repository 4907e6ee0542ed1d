"""The transport of this process, as the settings say."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from functools import partial
from threading import Lock

from django.conf import settings

from checkpoints.content.encryption import encryptor_of
from checkpoints.database.alias import connection
from checkpoints.database.direct import direct_parameters
from checkpoints.ids import new_token
from checkpoints.models.user_model import User
from wfdash.installation.environment import signals_of
from wfdash.pubsub import forwarding
from wfdash.pubsub.bus import Bus
from wfdash.pubsub.messages import Envelope, key_of
from wfdash.pubsub.streaming import streamed_text
from wfdash.pubsub.transport import Transport


class ProcessSignals:
    """Exchanges what is published with other processes, from the first ``start`` on."""

    def __init__(self) -> None:
        self.transport: Transport | None = None
        """None where nothing is exchanged."""
        self._started = False
        self._unforward: Callable[[], None] = lambda: None
        self._lock = Lock()

    @property
    def arrive(self) -> bool:
        """Whether signals of other processes arrive at this moment, as far as is known."""
        transport = self.transport
        return transport is not None and transport.listening.is_set()

    def start(self) -> None:
        """Begin, unless that has been done; returns at once, for connecting is done elsewhere. ``ValueError``."""
        if self._started:
            return
        with self._lock:
            if not self._started and (bus := choose_bus()) is not None:
                deliver = partial(forwarding.deliver, key_of=User._meta.pk.to_python)
                began = streamed_text.forget_elsewhere
                self.transport = Transport(bus, make_envelope(), deliver=deliver, began=began)
                self._unforward = forwarding.forward_to(self.transport.send)
                self.transport.start()
                atexit.register(self.stop)
            self._started = True

    def stop(self) -> None:
        """Send what is pending, then exchange nothing more."""
        with self._lock:
            transport, self.transport, self._started = self.transport, None, False
            if transport is not None:
                atexit.unregister(self.stop)
                self._unforward()
                transport.close()


signals = ProcessSignals()


def choose_bus() -> Bus | None:
    """Return what the settings say; None for nothing. ``ValueError`` for a setting that cannot be meant."""
    match signals_of(settings.WFDASH_SIGNALS, on_postgres=connection().vendor == "postgresql"):
        case "postgres":
            from wfdash.pubsub.postgres import PostgresBus

            return PostgresBus(direct_parameters())
        case url if url != "off":
            from wfdash.pubsub.redis_bus import RedisBus

            return RedisBus(url)
    return None


def make_envelope() -> Envelope:
    """Return the envelope of this process: signed with the secret key, encrypted if content is."""
    keys = [key_of(str(secret)) for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]
    return Envelope(new_token(), keys=keys, encryptor=encryptor_of(settings.WFDASH_ENCRYPTION_KEYS))
