"""Making frozen dataclasses at the rate at which a long log needs them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, TypeVar, cast

T = TypeVar("T")


def quick(frozen: type[T]) -> type[T]:
    """What makes instances of a frozen dataclass with slots in a quarter of the time.

    The generated ``__init__`` of a frozen class sends every field through ``object.__setattr__``. This one fills a
    mutable twin of the same slots and then gives it the frozen class: what comes out is an instance like any other.
    """

    return cast("type[T]", _twin(cast(Any, frozen)))


@functools.cache
def _twin(frozen: Any) -> type[Any]:
    def become(self: Any) -> None:
        self.__class__ = frozen

    fields = [(field.name, field.type, _same(field)) for field in dataclasses.fields(frozen)]
    return dataclasses.make_dataclass(
        frozen.__name__, fields, slots=True, eq=False, repr=False, namespace={"__post_init__": become}
    )


def _same(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=field.default_factory)
    return dataclasses.field(default=field.default)
