"""The memory that a compiled forward reads: kinds of weights, records, and the words that threads share.

A record's fields are all int64: sizes, and addresses of float32 numbers or of other records.
"""

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


def _integers(*names: str) -> list[tuple[str, type]]:
    return [(name, np.int64) for name in names]


MATRIX = np.dtype(_integers("weights", "scales", "bias", "outputs"))
"""Addresses, 0 for none, and the number of outputs, padded to whole blocks."""
PLAN = np.dtype(
    [
        *_integers("item", "per_step", "width", "heads", "kv_heads", "size", "inner", "scale", "rotation"),
        *_integers("multiply", "attend", "layers", "layer_table", "norm"),
        ("head", MATRIX),
    ]
)
"""A decoder. item, per_step: `BYTES` and `PER_STEP` of its kind of weights. layers: their number.
layer_table: address of the `LAYER` records. multiply, attend: addresses of `tiles.multiply` for its kind of
weights, and of `attention.attend` for its heads. Norms are addresses of weights, with epsilon behind them."""
LAYER = np.dtype(
    [
        *_integers("attention_norm", "q_norm", "k_norm", "mlp_norm"),
        *((name, MATRIX) for name in ("qkv", "out", "gate_up", "down")),
    ]
)
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
