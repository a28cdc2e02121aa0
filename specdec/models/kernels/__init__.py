"""The forward pass of Llama-like decoders on a CPU as one compiled call.

A few tokens take about as long as one. It is optional. Without Numba, or with `SPECDEC_KERNELS=0`, `lean`
computes the same with torch's operations.
"""

from specdec.models.kernels.decoder import CompiledDecoder

__all__ = ["CompiledDecoder"]
