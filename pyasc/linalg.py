"""Linear algebra."""

from typing import TYPE_CHECKING, Any

from .ops import registry

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


globals().update(registry.public("linalg"))

__all__ = [*registry.public("linalg")]
