"""The layout of the memory of a compiled forward: kinds of weights, records, and words that threads share.

All fields of records are int64: sizes, or addresses of float32 numbers or of other records.
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
"""Inputs that a step takes."""
DTYPES = {kind: "bfloat16" if kind == PAIRS else kind for kind in BYTES}
"""Names of torch's dtypes in which the weights of each kind are stored."""
GROUP = 32
"""Inputs that are rounded to int8 together, for weights of a `Quantised` kind."""
SMALLEST = np.float32(1e-30)
"""A group of inputs whose largest magnitude is at most this is rounded to zero."""


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
    Bits lie in lines of uint8 [16 outputs, 4]. The low bits take four lines: byte j of line i has input
    8 i + j in its low half and input 8 i + 4 + j in its high half. A fifth bit takes one line: byte j has
    input 4 n + j at bit n. A fifth and sixth take two: byte j of line n // 4 has them from bit 2 (n % 4) on.
    """

    bits: int
    span: int
    scaled: int
    factored: bool
    minima: bool

    @property
    def offset(self) -> int:
        """The number subtracted from each q; 0 where there are minima."""
        return 0 if self.minima else 1 << (self.bits - 1)

    @property
    def scales(self) -> int:
        """Number of scales that the `span` inputs of one output have."""
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
        """A number for the way in which inputs are rounded. Kinds with the same number share rounded rows."""
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
"""All kinds of few bits, by their names in GGUF."""


def _integers(*names: str) -> list[tuple[str, type]]:
    return [(name, np.int64) for name in names]


MATRIX = np.dtype(
    _integers(
        *("weights", "scales", "bias", "outputs", "multiply", "block_bytes", "steps", "rounding"),
        *("column", "limit", "parts", "all_parts", "next"),
    )
)
"""A matrix. weights, scales, bias: addresses, 0 for none. outputs: their number, padded to whole blocks.
multiply: address of the compiled product for its kind. block_bytes: bytes of a block. steps: how many steps
over the inputs, or units of a `Quantised` kind. rounding: `UNROUNDED`, `IN_PAIRS` or `Quantised.rounding`.

Several matrices may form one product of the same inputs. column, limit: where this matrix's sums begin in a
row of the result, and how many they are. parts: its number of parts; all_parts: that of the whole product.
next: address of the next matrix of the product, or 0."""
UNROUNDED, IN_PAIRS = 0, 1
"""How the inputs of a matrix are rounded: not at all, or to bfloat16."""
PLAN = np.dtype(
    _integers(
        *("width", "heads", "kv_heads", "size", "inner", "scale", "rotation"),
        *("attend", "layers", "layer_table", "norm", "head"),
    )
)
"""A decoder. layers: their number. layer_table: address of the `LAYER` records. attend: address of the
compiled `attention.attend` for its head size. head: address of the output `MATRIX`. A norm is the address of
its weights, with epsilon behind them."""
LAYER = np.dtype(
    _integers(
        *("attention_norm", "q_norm", "k_norm", "mlp_norm"),
        *("qkv", "out", "gate_up", "down"),
    )
)
"""A layer: addresses of its norms, and of the first `MATRIX` of each product. gate_up: one matrix, in which
half a part of gates and half a part of ups alternate; or two, and each part takes half from either."""
CALL = np.dtype(
    _integers("plan", "rows", "x", "table", "logits", "scored", "scratch", "own", "own_bytes", "threads")
)
"""A forward. table: address of the `ROW` records. scratch: memory that all threads share. own: address of the
first thread's own memory; own_bytes: the size of each thread's. threads: how many threads have some."""
ROW = np.dtype(_integers("cache", "capacity", "place", "prefix", "line", "count"))
"""A row. cache, capacity: its cache's address and places. place: where its keys and values are written.
prefix: how many prefix tokens it attends to. line, count: address (int32) and number of its pending nodes."""
LAYER_BYTES, ROW_BYTES = LAYER.itemsize, ROW.itemsize

# Shared words, far enough apart that no two lie in one line of a processor's cache.
OPEN, ACTIVE, NUMBER, GIVEN, PHASES = 0, 8, 16, 24, 32
# The two words that a phase uses, and the number of words from one phase to the next.
TAKEN, DONE, PHASE = 0, 1, 8
PHASES_PER_LAYER = 6


def shared_words(layers: int) -> int:
    """The number of int64 words that the threads of a forward over so many layers share."""
    return PHASES + (PHASES_PER_LAYER * layers + 1) * PHASE
