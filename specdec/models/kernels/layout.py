"""The memory layout of the compiled forward pass: types ("kinds") of weights, records, and shared words.

All fields of records are int64: sizes, or addresses of float32 numbers or of other records.
"""

from typing import NamedTuple

import numpy as np

LANES = 16
"""The number of outputs that lie side by side in a block of a matrix."""
STRIP = 4 * LANES
"""The number of outputs in a strip of a product. A thread takes one or several adjacent strips at once."""
PART = 4 * STRIP
"""The largest number of outputs that one call of a compiled product computes."""
KINDS = ("float32", "float16", "bfloat16", "int8")
"""The types in which weights can be stored, from the most bytes to the fewest."""
PAIRS = "bfloat16 pairs"
"""The type of bfloat16 weights whose inputs are rounded to bfloat16 as well, and multiplied in pairs."""
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1, PAIRS: 4}
"""For each type, how many bytes of weights a step of the loop over the inputs reads for each output."""
PER_STEP = {kind: 2 if kind == PAIRS else 1 for kind in BYTES}
"""For each type, the number of inputs that a step of the loop over the inputs takes."""
DTYPES = {kind: "bfloat16" if kind == PAIRS else kind for kind in BYTES}
"""For each type, the name of torch's dtype in which the weights are stored."""
GROUP = 32
"""For weights of a `Quantised` type, inputs are rounded to int8 in groups of this size, each with a step."""
SMALLEST = np.float32(1e-30)
"""A group of inputs whose largest magnitude is at most this is rounded to zero."""


def rounded_group_bytes(scaled: int) -> int:
    """Bytes of a rounded group: 32 inputs, their step, and a word for each scale of weights (see `groups`).

    scaled: the number of inputs that share a scale.
    """
    return GROUP + 4 + GROUP // scaled * 4


class Quantised(NamedTuple):
    """A type of weights with few bits, as in GGUF files. A weight is scale * q + minimum, or, without minima,
    scale * (q - offset). q: a whole number of `bits` bits, 4, 5, 6 or 8.

    A file stores the weights of each output in units of `span` inputs. scaled: the number of inputs that
    share a scale. factored: whether a scale is an int8 number times a float16 factor of its unit; otherwise
    it is a float16 number.

    A unit of sixteen outputs is stored as
        factors or scales     float16 [16]; then float16 [16] for the minima if the type has minima
        whole numbers         if factored, int8 [span / scaled, 16]; then as many for the minima
        groups of 32 inputs   for each: the low four bits of q, then its other bits; or q as uint8 [8, 16, 4]
    The bits of a group lie in lines of uint8 [16 outputs, 4]. For byte j = 0 to 3 of an output:
        low four bits, line i = 0 to 3   input 8 i + j in the low half of byte j, 8 i + 4 + j in the high half
        fifth bit, one line              input 4 n + j in bit n = 0 to 7 of byte j
        fifth and sixth bit, two lines   input 4 n + j in two bits from bit 2 (n % 4) on, byte j, line n // 4
    """

    bits: int
    span: int
    scaled: int
    factored: bool
    minima: bool

    @property
    def offset(self) -> int:
        """The number that is subtracted from each q; 0 if the type has minima."""
        return 0 if self.minima else 1 << (self.bits - 1)

    @property
    def scales(self) -> int:
        """The number of scales in one unit of one output."""
        return self.span // self.scaled

    @property
    def head_bytes(self) -> int:
        """Bytes of a unit before its first q: its factors or scales, and its int8 numbers."""
        return (2 + self.factored * self.scales) * LANES * (1 + self.minima)

    @property
    def group_bytes(self) -> int:
        """Bytes of the q of 32 inputs, for sixteen outputs."""
        return GROUP * LANES * self.bits // 8

    @property
    def unit_bytes(self) -> int:
        """Bytes of a unit of sixteen outputs."""
        return self.head_bytes + self.span // GROUP * self.group_bytes

    @property
    def rounding(self) -> int:
        """A number that says how inputs are rounded. Types with equal numbers can share rounded inputs."""
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
"""All quantised types that are supported, by their names in GGUF."""


def _integers(*names: str) -> list[tuple[str, type]]:
    return [(name, np.int64) for name in names]


MATRIX = np.dtype(
    _integers(
        *("weights", "scales", "bias", "outputs", "multiply", "block_bytes", "steps", "rounding"),
        *("column", "limit", "strips", "all_strips", "next"),
    )
)
"""The record of a packed matrix. weights, scales, bias: addresses, or 0. outputs: the number of outputs,
padded to whole blocks. multiply: address of the compiled product for its type. block_bytes: bytes of a block.
steps: the number of steps over the inputs, or of units of a `Quantised` type. rounding: `UNROUNDED`,
`IN_PAIRS` or `Quantised.rounding`.

Several matrices with the same inputs may form one product. column: where the sums of this matrix begin in a
row of the result. limit: the number of these sums. strips: the number of strips of this matrix. all_strips:
that of the whole product. next: address of the next matrix of the product, or 0."""
UNROUNDED, IN_PAIRS = 0, 1
"""How the inputs of a matrix are rounded: not at all, or to bfloat16 in pairs."""
PLAN = np.dtype(
    _integers(
        *("width", "heads", "kv_heads", "size", "inner", "scale", "rotation"),
        *("attend", "layers", "layer_table", "norm", "head"),
    )
)
"""The record of a decoder. scale, rotation: addresses of attention's factor and of the rotary table. attend:
address of the compiled `attention.attend` for its head size. layers: the number of layers. layer_table:
address of the `LAYER` records. norm: address of the last norm. head: address of the output `MATRIX`."""
LAYER = np.dtype(
    _integers(
        *("attention_norm", "q_norm", "k_norm", "mlp_norm"),
        *("qkv", "out", "gate_up", "down"),
    )
)
"""The record of a layer: addresses of norms (weights, then epsilon), and of each product's first `MATRIX`."""
CALL = np.dtype(
    _integers("plan", "rows", "x", "table", "logits", "scored", "scratch", "own", "own_bytes", "threads")
)
"""The record of a forward pass. table: address of the `ROW` records. scored: only this many first rows get
logits. scratch: address of the memory that threads share. own: address of the first thread's own memory.
own_bytes: bytes of each thread's own memory. threads: for how many threads there is own memory."""
ROW = np.dtype(_integers("cache", "capacity", "place", "prefix", "line", "count"))
"""A row: one token of a forward pass. cache: address of its text's cache. capacity: the cache's places.
place: where its keys and values go. prefix: it attends to this many first places. line: address of int32
[count], the numbers of the pending nodes to which it attends."""
LAYER_BYTES, ROW_BYTES = LAYER.itemsize, ROW.itemsize

# Indices of shared words. OPEN: may helpers join? ACTIVE: number of active helpers. NUMBER: number of threads
# that have joined. GIVEN: the call's address. PHASES: the first phase's words. Each has its own cache line.
OPEN, ACTIVE, NUMBER, GIVEN, PHASES = 0, 8, 16, 24, 32
# A phase counts its taken and its done parts in two words; PHASE is the distance to the next phase.
TAKEN, DONE, PHASE = 0, 1, 8
PHASES_PER_LAYER = 6


def shared_words(layers: int) -> int:
    """The number of int64 words that threads share in a forward pass over this many layers."""
    return PHASES + (PHASES_PER_LAYER * layers + 1) * PHASE
