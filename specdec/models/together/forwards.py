"""Former names of `models.requests`."""

from specdec.models.requests import Request as Forward
from specdec.models.requests import Requesting as Asking
from specdec.models.requests import answered_alone as alone

__all__ = ["Asking", "Forward", "alone"]
