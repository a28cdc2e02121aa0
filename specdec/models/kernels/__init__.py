"""Llama-like decoders on a CPU as one compiled call: a few rows for the price of one.

Optional: where Numba is not installed, or `SPECDEC_KERNELS=0`, `lean` does the same with torch's operations.
"""

from specdec.models.kernels.decoder import CompiledDecoder

__all__ = ["CompiledDecoder"]
