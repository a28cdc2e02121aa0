"""Former names of `models.batching`."""

from specdec.models.batching import Answer
from specdec.models.batching import answers as together

__all__ = ["Answer", "together"]
