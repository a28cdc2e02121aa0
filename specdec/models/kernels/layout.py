"""The memory that a compiled forward reads: kinds of weights, records, and the words that threads share.

A record's fields are all int64: sizes, and addresses of float32 numbers or of other records.
"""

from typing import NamedTuple

import numpy as np

LANES = 16
"""Outputs that lie side by side in a block of a matrix."""
PART = 4 * LANES
"""Outputs of a part of a product, the work that a thread takes at once."""
KINDS = ("float32", "float16", "bfloat16", "int8")
"""Types that weights are stored as, from the most bytes to the fewest."""
PAIRS = "bfloat16 pairs"
"""Weights of bfloat16 whose inputs are rounded to bfloat16 too, two inputs to a word."""
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1, PAIRS: 4}
"""Bytes that one output reads in a step of the loop over the inputs."""
PER_STEP = {kind: 2 if kind == PAIRS else 1 for kind in BYTES}
"""Inputs of a step."""
DTYPES = {kind: "bfloat16" if kind == PAIRS else kind for kind in BYTES}
"""Names of torch's types of number in which the weights are stored."""
GROUP = 32
"""Inputs that are rounded to int8 together, for weights of a `Quantised` kind."""
SMALLEST = np.float32(1e-30)
"""Groups of inputs that are not larger than this are rounded to zero."""


class Quantised(NamedTuple):
    """A kind of weights of few bits, as GGUF files have them. A weight is scale * q + minimum, or, without
    minima, scale * (q - offset). q: a whole number of `bits` bits, 4, 5, 6 or 8.

    span: inputs of a unit, the stretch of an output's inputs that the file stores together. scaled: inputs
    that share a scale. factored: whether a scale is a float16 number of the unit times a whole number of its
    own; otherwise it is a float16 number.

    A unit of sixteen outputs is stored as
        factors or scales     float16 [16], then the same of the minima where the kind has some
        whole numbers         int8 [span / scaled, 16] if factored, then the same of the minima
        32 inputs, repeated   the low four bits of q, then the bits above them; or q as uint8 [8, 16, 4]
    The low bits are uint8 [4, 16, 4]: of four lines of sixteen outputs. A byte of line i has input 8 i + j in
    its low half and 8 i + 4 + j in its high half, for j below 4. Of the high bits, byte [output, j] of the
    only line has input 4 n + j at bit n (five bits); of line n / 4, at bits 2 (n % 4) (six bits).
    """

    bits: int
    span: int
    scaled: int
    factored: bool
    minima: bool

    @property
    def offset(self) -> int:
        """The number that is taken from each q; 0 where there are minima."""
        return 0 if self.minima else 1 << (self.bits - 1)

    @property
    def scales(self) -> int:
        """Scales of a unit and an output."""
        return self.span // self.scaled

    @property
    def head_bytes(self) -> int:
        """Bytes of a unit before its q."""
        return (2 + self.factored * self.scales) * LANES * (1 + self.minima)

    @property
    def group_bytes(self) -> int:
        """Bytes of the q of 32 inputs."""
        return GROUP * LANES * self.bits // 8

    @property
    def unit_bytes(self) -> int:
        """Bytes of a unit."""
        return self.head_bytes + self.span // GROUP * self.group_bytes

    @property
    def rounding(self) -> int:
        """How the inputs are prepared: different kinds with the same number take the same rows."""
        return self.offset << 8 | self.scaled


QUANTISED = {
    "Q4_0": Quantised(4, 32, 32, factored=False, minima=False),
    "Q4_1": Quantised(4, 32, 32, factored=False, minima=True),
    "Q5_0": Quantised(5, 32, 32, factored=False, minima=False),
    "Q5_1": Quantised(5, 32, 32, factored=False, minima=True),
    "Q8_0": Quantised(8, 32, 32, factored=False, minima=False),
    "Q4_K": Quantised(4, 256, 32, factored=True, minima=True),
    "Q5_K": Quantised(5, 256, 32, factored=True, minima=True),
    "Q6_K": Quantised(6, 256, 16, factored=True, minima=False),
}
"""By GGUF's names."""


def _integers(*names: str) -> list[tuple[str, type]]:
    return [(name, np.int64) for name in names]


MATRIX = np.dtype(
    _integers(
        *("weights", "scales", "bias", "outputs", "multiply", "block_bytes", "steps", "rounding"),
        *("column", "limit", "parts", "all_parts", "next"),
    )
)
"""A matrix. weights, scales, bias: addresses, 0 for none. outputs: their number, padded to whole blocks.
multiply: address of the compiled products of its kind of weights. block_bytes: bytes of a block. steps: of
the loop over the inputs; units of a `Quantised` kind. rounding: `UNROUNDED`, `IN_PAIRS`, or that of the kind.

Several matrices may be one product of the same inputs. column, limit: the first place of its sums in a row of
the result, and how many there are. parts: the number of its parts; all_parts: that of all matrices of the
product. next: address of the next matrix of the product, or 0."""
UNROUNDED, IN_PAIRS = 0, 1
"""How the inputs of a matrix are rounded: not at all, or to bfloat16."""
PLAN = np.dtype(
    _integers(
        *("width", "heads", "kv_heads", "size", "inner", "scale", "rotation"),
        *("attend", "layers", "layer_table", "norm", "head"),
    )
)
"""A decoder. layers: their number. layer_table: address of the `LAYER` records. attend: address of
`attention.attend` for its heads. head: address of the output `MATRIX`. Norms are addresses of weights, with
epsilon behind them."""
LAYER = np.dtype(
    _integers(
        *("attention_norm", "q_norm", "k_norm", "mlp_norm"),
        *("qkv", "out", "gate_up", "down"),
    )
)
"""Addresses of norms, and of the first `MATRIX` of each product. A single matrix of gates and ups has half a
part of each in turn; of two matrices, each part takes half from each."""
CALL = np.dtype(
    _integers("plan", "rows", "x", "table", "logits", "scored", "scratch", "own", "own_bytes", "threads")
)
"""A forward. table: address of the `ROW` records. scratch: memory of all threads together. own, own_bytes:
address of the first thread's own memory, and bytes of each thread's. threads: the number that have some."""
ROW = np.dtype(_integers("cache", "capacity", "place", "prefix", "line", "count"))
"""A row: address and capacity of its cache, its place there, how many tokens of the prefix it sees, then
address (of int32) and number of the pending nodes that it sees."""
LAYER_BYTES, ROW_BYTES = LAYER.itemsize, ROW.itemsize

# Shared words, far enough apart that no two lie in one line of a processor's cache.
OPEN, ACTIVE, NUMBER, GIVEN, PHASES = 0, 8, 16, 24, 32
# Words of a phase, and their number.
TAKEN, DONE, PHASE = 0, 1, 8
PHASES_PER_LAYER = 6


def shared_words(layers: int) -> int:
    """int64 words that the threads of a forward over so many layers share."""
    return PHASES + (PHASES_PER_LAYER * layers + 1) * PHASE
