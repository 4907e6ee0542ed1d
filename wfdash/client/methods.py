"""Scripts as methods of both clients: what blocks in ``Client`` is awaited in ``AsyncClient``, with one signature."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Generic, ParamSpec, TypeVar, overload

from wfdash.client.drivers import AsyncDriver, SyncDriver
from wfdash.client.script import Script

P = ParamSpec("P")
T = TypeVar("T")


class Blocking:
    """What has a driver that blocks."""

    _driver: SyncDriver


class Awaiting:
    """What has an asynchronous driver."""

    _driver: AsyncDriver


class ApiMethod(Generic[P, T]):
    """A method that performs a script and returns what it returns."""

    def __init__(self, script: Callable[P, Script[T]]) -> None:
        self._script = script
        self.__doc__ = script.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> ApiMethod[P, T]: ...
    @overload
    def __get__(self, owner: Blocking, kind: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, owner: Awaiting, kind: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, owner: Blocking | Awaiting | None, kind: type) -> Any:
        if owner is None:
            return self

        @functools.wraps(self._script)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return owner._driver.perform(self._script(*args, **kwargs))

        return method


class ApiIterator(Generic[P, T]):
    """A method that performs a script and yields what it emits."""

    def __init__(self, script: Callable[P, Script[None]], of: type[T]) -> None:
        self._script = script
        self.__doc__ = script.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> ApiIterator[P, T]: ...
    @overload
    def __get__(self, owner: Blocking, kind: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, owner: Awaiting, kind: type) -> Callable[P, AsyncIterator[T]]: ...

    def __get__(self, owner: Blocking | Awaiting | None, kind: type) -> Any:
        if owner is None:
            return self

        @functools.wraps(self._script)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return owner._driver.iterate(self._script(*args, **kwargs))

        return method
