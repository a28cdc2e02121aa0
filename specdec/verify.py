"""`specdec.verify.verify_gsd` and `verify_ersd`: the public name of what `specdec.methods` holds."""

from specdec.methods import Attempt, Verdict, verify_ersd, verify_gsd

__all__ = ["Attempt", "Verdict", "verify_ersd", "verify_gsd"]
