"""Where the numbers of a compiled forward lie: kinds of weights, plans of decoders, calls, shared words.

plan     header | layer 0 | layer 1 | ...         what a decoder is: sizes and addresses, int64
call     what one forward is about: tokens, cache, tree, where to write, int64
shared   words by which threads agree: who is at work, and two counters for each phase
"""

LANES = 16
"""Outputs that lie side by side in a block of a matrix."""
PART = 4 * LANES
"""Outputs of a part of a product, the work that a thread takes at once."""
KINDS = ("float32", "float16", "bfloat16", "int8")
"""What weights are stored as; the number of a kind in a plan is its place here."""
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}

# a plan's header; SCALE, TURNS and NORM are addresses of float32, HEAD is a matrix, MULTIPLY the address
# of `tiles.multiply`
KIND, ITEM, LAYERS, WIDTH, HEADS, KV_HEADS, SIZE, INNER, SCALE, TURNS, NORM, HEAD = range(12)
MULTIPLY = 15
HEADER = 16
# a matrix: three addresses and its padded outputs
WEIGHTS, SCALES, BIAS, OUTPUTS = range(4)
# a layer: addresses of norms, which are weights and epsilon, then matrices
ATTENTION_NORM, Q_NORM, K_NORM, MLP_NORM, QKV, OUT, GATE_UP, DOWN = 0, 1, 2, 3, 4, 8, 12, 16
LAYER = 20

# a call; X, LOGITS, SCRATCH and OWN are addresses of float32, TABLE of the rows
PLAN, ROWS, X, TABLE, LOGITS, SCORED, SCRATCH, OWN, OWN_BYTES = range(9)
CALL = 9
# a row: address and capacity of its cache, its place there, tokens that it sees of the prefix, then address
# and number of the nodes that it sees behind, int32
CACHE, CAPACITY, PLACE, PREFIX, LINE, COUNT = range(6)
ROW = 6

# shared words, far enough apart that no two lie in one line of a processor's cache
OPEN, ACTIVE, NUMBER, GIVEN, PHASES = 0, 8, 16, 24, 32
# of each phase
TAKEN, DONE, PHASE = 0, 1, 8
PHASES_PER_LAYER = 6


def shared_words(layers: int) -> int:
    """int64 that a forward over so many layers shares between its threads."""
    return PHASES + (PHASES_PER_LAYER * layers + 1) * PHASE
