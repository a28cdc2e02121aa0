"""The forward pass of a Llama-like decoder over a few rows (tokens) as one compiled call on several threads.

A forward pass is a sequence of phases. The work of a phase is cut into parts, which threads take by a shared
counter, and the phase ends when all parts are done. A helper thread that wakes up late takes parts of the
remaining phases, so no thread waits for it.

    per layer    qkv  ->  rotate, into the cache  ->  attention  ->  out  ->  gate, up  ->  down    then: head
    parts:       strips          a row         a row and a head    strips     strips       strips      strips

A strip is 64 outputs of a product. A thread takes several adjacent strips at once, fewer towards the end of a
phase. Their weights lie one after the other in memory, so the processor reads ahead from strip to strip.

A row's numbers depend neither on other rows nor on threads: a product adds its inputs in a fixed order
(`tiles`), and attention takes a row's keys in the order of the text, first the prefix, then the ancestors. So
a token's logits have the same bits in every tree.
"""

from __future__ import annotations

import numpy as np

from specdec.models.kernels import layout as at
from specdec.models.kernels.atomics import (
    add_to_word,
    call_attention,
    call_product,
    call_record,
    floats,
    inner,
    ints,
    layer_record,
    load_word,
    matrix_record,
    plan_record,
    row_record,
    store_word,
    wait_for,
)
from specdec.models.kernels.attention import exp
from specdec.models.kernels.rounding import rounded
from specdec.models.kernels.sums import total_of_squares

SET, ADD, GATE = range(3)
"""What a phase does with a product's sums: write them, add them to the output, or write silu(gate) * up."""

_ONE = np.float32(1)


@inner(error_model="numpy")
def _normed(row, count, norm, out):
    """RMSNorm of a row [count] into out. row, norm, out: addresses. norm: weights [count], then epsilon."""
    numbers, weight, into = floats(row, count), floats(norm, count + 1), floats(out, count)
    root = np.sqrt(total_of_squares(row, count) / np.float32(count) + weight[count])
    for i in range(count):
        into[i] = numbers[i] * weight[i] / root


@inner()
def _next_strips(number, strips, threads):
    """(first, end) of the strips for the thread that got this number from the phase's shared counter.

    If lower numbers leave n strips, this number gets 1 + n // (2 * threads) of them. So the last pieces of
    work are small, and all threads finish at nearly the same time. If no strips are left, first = end.
    """
    first, end = 0, 0
    for _ in range(number + 1):
        first, end = end, min(strips, end + 1 + (strips - end) // (2 * threads))
    return first, end


@inner()
def _product(phase, what, matrix, inputs, across, rows, source, norm, out, own, threads):
    """One phase: a product of source [rows, inputs] with one matrix, or with several.

    phase: address of the phase's words. what: SET, ADD or GATE. matrix: address of the first `layout.MATRIX`.
    norm: address of the weights of an RMSNorm that is applied to `source` first, or 0. out: address of the
    result, rows of `across` numbers. own: address of this thread's own memory.
    """
    strips = matrix_record(matrix).all_strips
    x, spare, rounding, stride, fresh = source, own + 2 * rows * at.PART * 4, -1, 0, True
    while True:
        strip, end = _next_strips(add_to_word(phase + 8 * at.TAKEN, 1), strips, threads)
        strips_done = end - strip
        if strips_done == 0:
            break
        if fresh and norm != 0:
            _norm_rows(rows, inputs, source, norm, spare)
            source, spare = spare, spare + rows * inputs * 4
        fresh = False
        while strip < end:
            record, first = matrix_record(matrix), strip
            while first >= record.strips:
                first -= record.strips
                record = matrix_record(record.next)
            count = min(end - strip, record.strips - first, at.PART // at.STRIP)
            outputs = min(count * at.STRIP, record.limit - first * at.STRIP)
            column = record.column + first * at.STRIP
            for side in range(2 if what == GATE else 1):
                if side == 1:
                    record = matrix_record(record.next)
                if record.rounding != rounding:
                    rounding = record.rounding
                    x, stride = rounded(rounding, rows, inputs, source, spare)
                _multiply(record, first, count, x, stride, rows, own + side * rows * at.PART * 4)
            for row in range(rows):
                sums, into = own + row * at.PART * 4, out + (row * across + column) * 4
                _hand_over(what, outputs, sums, sums + rows * at.PART * 4, into)
            strip += count
        add_to_word(phase + 8 * at.DONE, strips_done)
    wait_for(phase + 8 * at.DONE, strips)


@inner()
def _multiply(matrix, strip, count, x, stride, rows, sums):
    """Write the sums of `count` strips, first `strip`, to sums [rows, PART]. stride: bytes of a row of x."""
    first = strip * at.STRIP
    blocks = min(count * at.STRIP, matrix.outputs - first) // at.LANES
    weights = matrix.weights + first // at.LANES * matrix.block_bytes
    call_product(matrix.multiply, weights, matrix.block_bytes, matrix.steps, x, stride, rows, sums, blocks)
    for row in range(rows):
        _complete(floats(sums + row * at.PART * 4, blocks * at.LANES), matrix, first)


@inner()
def _norm_rows(rows, width, source, norm, out):
    for row in range(rows):
        place = row * width * 4
        _normed(source + place, width, norm, out + place)


@inner()
def _complete(sums, matrix, first):
    """Multiply sums by the scales of int8 weights and add the bias. first: the number of the first output."""
    if matrix.scales != 0:
        scales = floats(matrix.scales + first * 4, len(sums))
        for i in range(len(sums)):
            sums[i] *= scales[i]
    if matrix.bias != 0:
        _add(floats(matrix.bias + first * 4, len(sums)), sums)


@inner()
def _hand_over(what, count, sums, up, out):
    """Bring `count` sums of one row to `out`, as `what` says (SET, ADD or GATE).

    up: for GATE, the address of the up projection's sums; `sums` then has those of the gate.
    """
    row, into = floats(sums, count), floats(out, count)
    if what == GATE:
        _gate(row, floats(up, count), into)
    elif what == SET:
        _copy(row, into)
    else:
        _add(row, into)


@inner()
def _copy(row, into):
    for i in range(len(row)):
        into[i] = row[i]


@inner()
def _add(row, into):
    for i in range(len(row)):
        into[i] += row[i]


@inner(error_model="numpy")
def _gate(gate, up, out):
    """out = silu(gate) * up."""
    for i in range(len(out)):
        out[i] = gate[i] / (_ONE + exp(-gate[i])) * up[i]


@inner()
def _rotated(head, cos, sin, into):
    """Write a head with its rotary embedding to `into`. The first half of `sin` is already negated."""
    half = len(head) // 2
    for i in range(half):
        low, high = head[i], head[half + i]
        into[i] = low * cos[i] + high * sin[i]
        into[half + i] = high * cos[half + i] + low * sin[half + i]


@inner()
def _row(call, number):
    return row_record(call.table + at.ROW_BYTES * number)


@inner()
def _rotate(phase, plan, layer, number, call, qkv, own):
    """Rotate queries in place; write rotated keys, and values, to the cache of each row's text."""
    size, heads, kv_heads = plan.size, plan.heads, plan.kv_heads
    rows, width = call.rows, heads + 2 * kv_heads
    spare = floats(own, size)
    while True:
        part = add_to_word(phase + 8 * at.TAKEN, 1)
        if part >= rows:
            break
        row = _row(call, part)
        rotation = plan.rotation + (row.prefix + row.count - 1) * 2 * size * 4
        cos, sin = floats(rotation, size), floats(rotation + size * 4, size)
        for head in range(width):
            place = qkv + (part * width + head) * size * 4
            numbers = floats(place, size)
            behind = (number * 2 * kv_heads + head - heads) * row.capacity + row.place
            cached = floats(row.cache + behind * size * 4, size)
            if head >= heads + kv_heads:
                _copy(numbers, cached)
                continue
            norm = layer.q_norm if head < heads else layer.k_norm
            if norm != 0:
                _normed(place, size, norm, own)
            else:
                _copy(numbers, spare)
            _rotated(spare, cos, sin, numbers if head < heads else cached)
        add_to_word(phase + 8 * at.DONE, 1)
    wait_for(phase + 8 * at.DONE, rows)


@inner()
def _attend(phase, plan, number, call, qkv, mixed, own):
    """Attention of each row and head to the keys in the cache of its text."""
    size, heads, kv_heads = plan.size, plan.heads, plan.kv_heads
    rows = call.rows
    while True:
        part = add_to_word(phase + 8 * at.TAKEN, 1)
        if part >= rows * heads:
            break
        head, row = part // rows, _row(call, part % rows)
        first = (number * 2 * kv_heads + head // (heads // kv_heads)) * row.capacity
        keys = row.cache + first * size * 4
        values = keys + kv_heads * row.capacity * size * 4
        query = qkv + (part % rows * (heads + 2 * kv_heads) + head) * size * 4
        out = mixed + (part % rows * heads + head) * size * 4
        text = (row.prefix, row.line, row.count)
        call_attention(plan.attend, query, size, keys, values, *text, plan.scale, own, out)
        add_to_word(phase + 8 * at.DONE, 1)
    wait_for(phase + 8 * at.DONE, rows * heads)


@inner()
def _work(shared):
    """Take part in all phases of the current call, unless other threads already have all of its memory.

    A helper that an earlier call woke may arrive during this call, which may have memory for fewer threads.
    A thread without memory returns at once; if it is the calling thread, `take_part` waits for the helpers.
    """
    call = call_record(load_word(shared + 8 * at.GIVEN))
    thread = add_to_word(shared + 8 * at.NUMBER, 1)
    if thread >= call.threads:
        return
    plan = plan_record(call.plan)
    own = call.own + thread * call.own_bytes
    rows, width, inner, size, threads = call.rows, plan.width, plan.inner, plan.size, call.threads
    queries, columns = plan.heads * size, (plan.heads + 2 * plan.kv_heads) * size
    x, qkv = call.x, call.scratch
    mixed = qkv + rows * columns * 4
    hidden = mixed + rows * queries * 4
    phase = shared + 8 * at.PHASES
    for number in range(plan.layers):
        layer = layer_record(plan.layer_table + number * at.LAYER_BYTES)
        norm = layer.attention_norm
        _product(phase, SET, layer.qkv, width, columns, rows, x, norm, qkv, own, threads)
        phase += 8 * at.PHASE
        _rotate(phase, plan, layer, number, call, qkv, own)
        phase += 8 * at.PHASE
        _attend(phase, plan, number, call, qkv, mixed, own)
        phase += 8 * at.PHASE
        _product(phase, ADD, layer.out, queries, width, rows, mixed, 0, x, own, threads)
        phase += 8 * at.PHASE
        norm = layer.mlp_norm
        _product(phase, GATE, layer.gate_up, width, inner, rows, x, norm, hidden, own, threads)
        phase += 8 * at.PHASE
        _product(phase, ADD, layer.down, inner, width, rows, hidden, 0, x, own, threads)
        phase += 8 * at.PHASE
    if call.scored != 0:
        outputs, logits, rows = matrix_record(plan.head).outputs, call.logits, call.scored
        _product(phase, SET, plan.head, width, outputs, rows, x, plan.norm, logits, own, threads)


def take_part(shared, call):
    """Run the `layout.CALL` at this address. If the address is 0, help with the running call, if any.

    shared: address of the `layout.shared_words(layers)` int64 words that threads share.
    """
    if call == 0:
        add_to_word(shared + 8 * at.ACTIVE, 1)
        if load_word(shared + 8 * at.OPEN) == 1:
            _work(shared)
        add_to_word(shared + 8 * at.ACTIVE, -1)
        return
    layers = plan_record(call_record(call).plan).layers
    counts = ints(shared + 8 * at.PHASES, (at.PHASES_PER_LAYER * layers + 1) * at.PHASE)
    counts[:] = 0
    store_word(shared + 8 * at.GIVEN, call)
    store_word(shared + 8 * at.NUMBER, 0)
    store_word(shared + 8 * at.OPEN, 1)
    _work(shared)
    store_word(shared + 8 * at.OPEN, 0)
    wait_for(shared + 8 * at.ACTIVE, 0)
