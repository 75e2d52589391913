"""Random numbers: the functions of the default generator, and generators of one's own."""

from typing import TYPE_CHECKING, Any

from .ops import registry
from .ops.random import Generator

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


globals().update(registry.public("random"))

__all__ = ["Generator", *registry.public("random")]
