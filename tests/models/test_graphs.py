"""Forwards that are captured as CUDA graphs give the logits of forwards that are launched kernel by kernel.

On a machine without a GPU nothing is captured: the same forward over fixed tensors runs itself, and Triton's
interpreter runs its kernels.
"""

import gc
import logging
import weakref
from random import Random

import pytest
import torch
from safetensors.torch import load_file, save_model

import specdec
from specdec.models import HFModel, graphs
from specdec.models.batching import answers
from specdec.models.graphs import graphs_of
from specdec.models.kernels import compiled
from specdec.models.lean import LeanDecoder
from specdec.models.requests import Request
from specdec.models.selfcheck import relative_error
from specdec.topology import sequence
from tests.helpers.processes import printed
from tests.helpers.sessions import Replay, random_line, random_tree
from tests.helpers.texts import together_as_alone
from tests.helpers.tiny_checkpoints import tiny_model
from tests.models.test_lean import qwen2

fused = pytest.importorskip("specdec.models.fused", reason="this machine has no Triton")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CLOSE = 2e-5
"""The relative error of float32: products over other numbers of rows add in another order."""


@pytest.fixture(autouse=True)
def few_programs(monkeypatch):
    """The interpreter takes milliseconds for each program, so on a CPU its trees are smaller too."""
    monkeypatch.setenv(compiled.SWITCH, "0")
    monkeypatch.setattr(fused, "ENOUGH", 2)  # for small models, wide trees have programs of many queries
    if DEVICE == "cpu":
        monkeypatch.setattr(fused, "PROGRAMS", 4)
        monkeypatch.setattr(fused, "MANY_QUERIES", 32)  # the widest trees still need two such blocks


def model_of(family="llama", captures=True, dtype=torch.float32, **changes):
    layers = 3 if DEVICE == "cuda" else 2
    model = HFModel(tiny_model(family, dtype, **{"num_hidden_layers": layers} | changes).to(DEVICE))
    weights = list(model.module.parameters())
    model.decoder.graphs = graphs_of(model.decoder, weights) if captures else None
    return model


def played(model, seed, rounds=12 if DEVICE == "cuda" else 3):
    """The logits of rounds with random trees, each grown in two forwards, after a prompt of random length."""
    replay, logits = Replay(model, seed, prefix=Random(seed).choice((1, 17, 250, 300))), []
    for _ in range(rounds):
        nodes = replay.rng.choice((1, 2, 5, 9, 40 if DEVICE == "cuda" else 20))
        parents = random_tree(replay.rng, nodes)
        cut = replay.rng.randrange(1, nodes + 1)
        logits += [replay.advance(part) for part in (parents[:cut], parents[cut:]) if part]
        replay.commit(random_line(replay.rng, parents))
    return replay.session, torch.cat(logits)


@pytest.mark.parametrize(("family", "chosen"), [("llama", 34), ("qwen3", 14), ("mistral", 25)])
def test_random_trees_have_the_logits_of_launched_kernels(family, chosen):
    """Interpreted kernels take seconds, so only one family has two layers, which differ in their place in the
    cache. With these seeds, kernels meet prompts of 1, 250 and 300 tokens, and wide and deep trees."""
    changes = {"sliding_window": None} if family == "mistral" else {}
    if DEVICE == "cpu" and family != "llama":
        changes["num_hidden_layers"] = 1
    model, launched = (model_of(family, captures, **changes) for captures in (True, False))
    for seed in range(4) if DEVICE == "cuda" else [chosen]:
        have, want = (played(each, seed)[1].cpu() for each in (model, launched))
        assert relative_error(have, want) < CLOSE, seed
    assert None not in model.decoder.graphs._graphs.values()


def test_a_prefix_that_is_counted_one_token_short_would_be_noticed(monkeypatch):
    """Negative control."""
    model, launched, right = model_of(), model_of(captures=False), graphs.GraphedForward.__call__

    def short(self, token_ids, texts):
        return right(self, token_ids, [text._replace(length=text.length - 1) for text in texts])

    monkeypatch.setattr(graphs.GraphedForward, "__call__", short)
    have, want = (played(each, 1, rounds=1)[1].cpu() for each in (model, launched))
    assert relative_error(have, want) > 100 * CLOSE


def test_where_a_capture_fails_forwards_are_launched_and_one_warning_says_so(monkeypatch, caplog):
    def refused(*_):
        raise RuntimeError("operation not permitted when stream is capturing")

    model = model_of()
    monkeypatch.setattr(graphs, "captured", refused)
    with caplog.at_level(logging.WARNING):
        have = played(model, 2, rounds=2)[1]
    (record,) = caplog.records
    assert "stream is capturing" in record.message
    assert torch.equal(have.cpu(), played(model_of(captures=False), 2, rounds=2)[1].cpu())


def together(model, seed):
    """The logits of trees of five texts, with a piece of a sixth text's prompt among them, in two rounds."""
    random, logits, sessions = Random(seed), [], [model.session() for _ in range(6)]
    most = 5 if DEVICE == "cuda" else 4
    for session in sessions:
        session.prefill([random.randrange(50) for _ in range(random.choice((1, 17, 90)))])
    for piece in ([], [7] * 9):
        requests = [Request(sessions.pop(), piece, None)] if piece else []
        for session in sessions:
            parents = [random.randrange(-1, i) if i else -1 for i in range(random.randrange(1, most))]
            ids = torch.tensor([random.randrange(50) for _ in parents], device=DEVICE)
            requests.append(Request(session, ids, parents))
        random.shuffle(requests)
        results = answers(requests)
        for request, answer in zip(requests, results, strict=True):
            if request.parents is not None:
                logits.append(answer)
                request.session.commit([0])
    return torch.cat(logits)


@pytest.mark.parametrize("most_rows", [512, 12], ids=["one graph", "halves"])
def test_trees_of_several_texts_have_the_logits_of_launched_kernels(most_rows, monkeypatch):
    monkeypatch.setattr(graphs, "MOST_ROWS", most_rows)
    model = model_of()
    have = together(model, 1)
    assert max(count for count, _ in model.decoder.graphs._graphs) == (8 if most_rows == 512 else 4)
    assert relative_error(have.cpu(), together(model_of(captures=False), 1).cpu()) < CLOSE


def test_a_text_is_the_same_beside_others():
    pair = specdec.ModelPair(*(model_of(num_hidden_layers=1) for _ in "td"))
    settings = {"method": "ersd", "topology": sequence(2), "max_new_tokens": 4}
    together_as_alone(pair, [[3, 4]] * 3, range(3), **settings)
    assert {count for count, _ in pair.target.decoder.graphs._graphs} >= {4}


def test_a_shape_without_memory_has_no_graph_and_the_others_have(monkeypatch, caplog):
    model, right = model_of(), graphs.captured

    def short(forward, device, pool):
        if model.decoder.graphs.refusing:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return right(forward, device, pool)

    monkeypatch.setattr(graphs, "captured", short)
    session, shapes = model.session(), []
    session.prefill([3, 4])
    for refusing, nodes in ((False, 1), (True, 2), (False, 2), (False, 3)):
        model.decoder.graphs.refusing = refusing
        session.forward(torch.tensor([5] * nodes, device=DEVICE), [-1] * nodes)
        session.commit([0])
        shapes = [(rows, graph is not None) for (_, rows), graph in model.decoder.graphs._graphs.items()]
    assert shapes == [(1, True), (2, False), (3, True)]
    assert caplog.records == []


def test_a_token_whose_state_is_nan_spoils_no_text_that_does_not_use_it():
    """Rows beyond the nodes still hold an earlier forward's tokens."""
    model = model_of(num_hidden_layers=1)
    bad = 49
    session = model.session()
    session.prefill([3, 4])
    session.forward(torch.tensor([bad] * 16, device=DEVICE), [-1] * 16)
    with torch.no_grad():
        model.module.model.embed_tokens.weight[bad] = float("nan")
    session.commit([])
    ids = torch.tensor([5] * 9, device=DEVICE)
    assert session.forward(ids, [-1] * 9).isfinite().all()
    session.commit([0])
    assert session.forward(ids, [-1] * 9).isfinite().all()


def test_a_model_with_graphs_is_freed_without_a_garbage_collection():
    model = model_of()
    session, _ = played(model, 2, rounds=1)
    cache, decoder = weakref.ref(session._cache), weakref.ref(model.decoder)
    for graph in model.decoder.graphs._graphs.values():
        graph._replay = None  # on a CPU this is the forward itself, which refers to the graph
    gc.disable()
    try:
        del session, model
        assert cache() is None
        assert decoder() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_joined_weights_are_saved_and_trained_as_before(family, tmp_path):
    module = (qwen2() if family == "qwen2" else tiny_model(family)).double()  # not packed on a CPU
    before = {name: value.clone() for name, value in module.state_dict().items()}
    ids = torch.tensor([[3, 4, 5]])
    want = module(ids).logits
    decoder = LeanDecoder(module.to(DEVICE), joins=True)
    assert relative_error(module(ids.to(DEVICE)).logits.cpu(), want) < CLOSE
    save_model(module, tmp_path / "model.safetensors")
    saved = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(saved[name], value) for name, value in before.items() if name in saved)
    assert {name for name in before if "proj" in name} <= saved.keys()
    with torch.no_grad():
        module.model.layers[0].self_attn.k_proj.weight.mul_(2)  # the joined matrix follows
    layer = decoder.layers[0]
    x = torch.randn(1, module.config.hidden_size, device=DEVICE, dtype=torch.float64)
    attention = module.model.layers[0].self_attn
    apart = [each(x) for each in (attention.q_proj, attention.k_proj, attention.v_proj)]
    assert torch.allclose(layer.qkv(x), torch.cat(apart, -1), atol=1e-5)
    assert attention.k_proj.weight.requires_grad


COMPILING = """
import torch, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from specdec.models import attention, fused

def compiled_kernels(dtype, size, heads, kv_heads):
    number = str(dtype).removeprefix("torch.").replace("float", "fp").replace("bfp", "bf")
    common = {"size": size, "pieces": 256 // kv_heads, "width": max(triton.next_power_of_2(size), 16)}
    masks = {"columns": attention.MOST_ROWS + attention.ALIGNED, "aligned": attention.ALIGNED}
    attend = common | masks | {"kv_heads": kv_heads, "keys": fused.KEYS[dtype]}
    kernels = [(fused._attend, attend | {"block": block}) for block in (fused.QUERIES, fused.MANY_QUERIES)]
    added = {"heads": heads, "kv_heads": kv_heads, "summed": fused.SUMMED}
    rotated = {"heads": heads, "kv_heads": kv_heads, "half": size // 2, "block": common["width"] // 2}
    kernels += [(fused._combine, common | added), (fused._rotate, rotated)]
    kinds = dict.fromkeys(("queries", "masks", "qkv", "mixed"), "*" + number)
    kinds |= {"mixes": "*fp32", "sums": "*fp32", "numbers": "*i64", "depths": "*i64", "scale": "fp32"}
    for kernel, fixed in kernels:
        names = kernel.arg_names
        signature = {name: "constexpr" if name in fixed else kinds.get(name, "i32") for name in names}
        source = ASTSource(kernel, signature, {(names.index(name),): fixed[name] for name in fixed})
        options = {"num_warps": 4 if kernel is fused._attend else 1, "num_stages": 2}
        made = triton.compile(source, target=GPUTarget("cuda", 80, 32), options=options)
        print(made.metadata.shared)

compiled_kernels(torch.float32, 8, 4, 2)
compiled_kernels(torch.bfloat16, 64, 14, 2)
compiled_kernels(torch.float16, 80, 32, 8)
compiled_kernels(torch.float32, 128, 12, 2)
compiled_kernels(torch.bfloat16, 128, 12, 2)
"""
"""Compiles kernels for a GPU of NVIDIA's Ampere family, which need not be there."""


def test_kernels_compile_and_fit_into_a_small_gpu():
    """The interpreter accepts more than the compiler does."""
    shared = [int(number) for number in printed(COMPILING, {"TRITON_INTERPRET": "0"}).split()]
    assert len(shared) == 5 * 4
    assert max(shared) < 99 * 1024
