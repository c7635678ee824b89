"""Code that flows share."""

from .prices import price_of

__all__ = ["price_of"]
