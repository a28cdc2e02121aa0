"""The compiled forward pass: that of Llama-like decoders on a CPU, as one call of compiled code.

A call over a few tokens takes about as long as a call over one token. The package is optional: without Numba,
or with `SPECDEC_KERNELS=0`, `lean` computes the same logits with torch's operations, up to rounding.
"""

from specdec.models.kernels.decoder import CompiledDecoder

__all__ = ["CompiledDecoder"]
