"""The forward pass of Llama-like decoders on a CPU as one compiled call.

A call over a few tokens takes about as long as a call over one. The package is optional: without Numba, or
with `SPECDEC_KERNELS=0`, `lean` computes the same with torch's operations.
"""

from specdec.models.kernels.decoder import CompiledDecoder

__all__ = ["CompiledDecoder"]
