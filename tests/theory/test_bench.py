"""Laws of the benchmark: paired ratios, pairs of the requested agreement, and equal work on both sides."""

from __future__ import annotations

import json
import math
import re

import pytest
import torch

import specdec
from research.bench import states
from research.bench.__main__ import main as profiled
from research.bench.profile import profile
from research.bench.synthetic import PRESETS, synthetic_pair
from specdec.bench import bandwidth
from specdec.bench.command import _prompts, main, parser
from specdec.bench.contestants import Contestant, Sample, Workload, ours, theirs, without_end
from specdec.bench.field import AUTOREGRESSIVE, Field, chosen
from specdec.bench.measure import interleaved, peaks
from specdec.bench.report import paired_ratio, rows, table
from specdec.bench.servers import server
from specdec.models import HFModel
from specdec.probs import Sampling
from specdec.race import Races
from specdec.shipped import PROMPTS, QUESTIONS
from specdec.theory import gsd_acceptance
from specdec.topology import sequence
from tests.helpers.servers import answering
from tests.helpers.tiny_checkpoints import save_checkpoint, tiny_model
from tests.helpers.tokenizers import byte_level_tokenizer


@pytest.fixture(scope="module")
def tiny():
    pair, reached = synthetic_pair(PRESETS["tiny"], torch.float32)
    return without_end(pair), reached


def test_a_ratio_is_the_median_of_pairs_with_its_interval():
    """A busy moment that slows both sides does not change the ratio. A single pair has no interval."""
    ratio = paired_ratio([2.0, 4.0, 6.0, 9.0, 100.0], [1.0, 2.0, 3.0, 3.0, 50.0])
    assert ratio["low"] == 2.0 == ratio["value"] <= ratio["high"] <= 3.0
    assert [*paired_ratio([2.0, 20.0, 6.0], [1.0, 10.0, 3.0]).values()] == [2.0, 2.0, 2.0]
    assert paired_ratio([3.0], [2.0])["value"] == 1.5
    assert math.isnan(paired_ratio([3.0], [2.0])["low"])
    with pytest.raises(ValueError, match="2 and 1 runs"):
        paired_ratio([1.0, 2.0], [1.0])


def test_a_synthetic_pair_reaches_its_acceptance_on_fresh_text():
    pair, reached = synthetic_pair(PRESETS["tiny"]._replace(acceptance=0.6), torch.float32, seed=1)
    assert reached == pytest.approx(0.6, abs=0.02)
    ids = torch.randint(257, (4, 128), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        logits = [model.module(input_ids=ids).logits.double() for model in (pair.target, pair.draft)]
    p, q = (each.softmax(-1) for each in logits)
    assert gsd_acceptance(p, q).mean() == pytest.approx(0.6, abs=0.08)


def test_a_synthetic_draft_can_be_rounded_and_its_target_stays():
    """The acceptance is calibrated first: both pairs have the same target."""
    plain, rounded = (synthetic_pair(PRESETS["tiny"], torch.float32, kind)[0] for kind in (None, "int8"))
    assert torch.equal(plain.target.module.lm_head.weight, rounded.target.module.lm_head.weight)
    for pair, is_whole in ((plain, False), (rounded, True)):
        weight = pair.draft.module.model.layers[0].mlp.up_proj.weight
        multiples = weight / (weight.abs().amax(1, keepdim=True) / 127)
        assert torch.allclose(multiples, multiples.round(), atol=1e-3) is is_whole


def test_both_sides_make_the_same_number_of_tokens_and_count_target_calls(tiny):
    pair, job = tiny[0], Workload([5, 6, 7], 3, 12)
    plain = theirs(pair, Sampling())(job)
    own = ours(pair, "ar", None, Sampling())(job)
    assert (plain.tokens, plain.target_calls) == (own.tokens, own.target_calls) == (12, 12)
    for sample in (plain, own):
        assert sum(sample.stages.values()) == pytest.approx(sample.seconds)
        assert min(sample.stages.values()) >= 0


def contestant(name: str, seconds: float, order: list[str]) -> Contestant:
    def run(job: Workload) -> Sample:
        order.append(name)
        parts = {"draft": 0.0, "target": seconds, "verify": 0.0, "rest": 0.0}
        return Sample(seconds, seconds, job.tokens, job.tokens, parts)

    return Contestant(name, "specdec", "float32", torch.get_num_threads(), run)


def test_turns_rotate_and_samples_stay_in_the_order_of_jobs():
    order: list[str] = []
    each = [contestant(name, 1.0, order) for name in "abc"]
    samples = interleaved(each, [Workload([0], seed, 4 + seed) for seed in range(3)])
    assert order == list("abcbcacab")
    assert [sample.tokens for sample in samples["b"]] == [4, 5, 6]


def test_the_table_has_a_line_for_each_with_ratios_and_milliseconds():
    each = [contestant(AUTOREGRESSIVE, 2.0, []), contestant("specdec ERSD auto", 0.5, [])]
    samples = interleaved(each, [Workload([0], seed, 10) for seed in range(2)])
    entries = rows(each, samples, {one.name: 3 << 20 for one in each}, {})
    assert entries[1]["ratio"]["autoregressive"]["value"] == 4.0
    assert entries[1]["ratio"]["assisted"] is None
    assert entries[1]["ms_per_round"]["target"] == 50.0
    lines = table(entries).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert len(lines) == 4
    assert "| 4.00 (4.00 to 4.00) |" in lines[3]
    assert "3 MiB" in lines[3]


@pytest.fixture
def small_copies(monkeypatch):
    monkeypatch.setattr(bandwidth, "BYTES", 1 << 20)


@pytest.mark.usefixtures("small_copies")
def test_the_limit_is_bandwidth_over_the_bytes_of_the_weights_that_a_token_reads(tiny):
    pair = tiny[0]
    shape, vocabulary = PRESETS["tiny"].target, PRESETS["tiny"].vocab_size
    attention = shape.width * shape.head_size * 2 * (shape.heads + shape.kv_heads)
    layer = attention + 3 * shape.width * shape.inner + 2 * shape.width
    read = 4 * (shape.layers * layer + vocabulary * shape.width + 2 * shape.width)
    assert bandwidth.bytes_per_token(pair.target) == read
    each = [contestant(name, 1.0, []) for name in (AUTOREGRESSIVE, "specdec ERSD auto")]
    limits = bandwidth.limits(each, {"float32": pair})
    assert list(limits) == [AUTOREGRESSIVE]
    limit = limits[AUTOREGRESSIVE]
    assert limit["tokens_per_second"] == pytest.approx(limit["bandwidth"] / read)
    assert 1e8 < limit["bandwidth"] < 1e13
    samples = interleaved(each, [Workload([0], seed, 10) for seed in range(2)])
    limits = {AUTOREGRESSIVE: {"bandwidth": 40e9, "tokens_per_second": 40.0}}
    entries = rows(each, samples, {}, limits)
    assert [row.get("bandwidth_share") for row in entries] == [0.25, None]
    sentence = bandwidth.sentence(entries, limits)
    assert "autoregressive 25% of 40 GB/s" in sentence


def test_a_tied_embedding_is_read_as_a_whole():
    model = HFModel(tiny_model("llama", tie_word_embeddings=True))
    assert bandwidth.bytes_per_token(model) == 4 * model.module.num_parameters()


@pytest.mark.usefixtures("small_copies")
def test_beside_a_recurrent_state_transformers_only_decodes_plainly():
    module = tiny_model("qwen3_next")
    module.generation_config.eos_token_id = None
    pair, lines = specdec.ModelPair(module, tiny_model("lfm2")), []
    field = Field({"float32": pair}, (1,), Sampling(), [Workload([1], 0, 6)])
    contestants, _ = chosen(field, lines.append)
    kinds = [each.kind for each in contestants]
    assert kinds.count("transformers") == 1
    assert "specdec ERSD sequence(4)" in [each.name for each in contestants]
    assert any("verifies no drafts" in line for line in lines)


@pytest.mark.usefixtures("small_copies")
def test_a_smoke_run_of_checkpoints_measures_everyone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, layers in (("target", 3), ("draft", 1)):
        tokenizer = byte_level_tokenizer()
        save_checkpoint(name, "llama", seed=layers, tokenizer=tokenizer, num_hidden_layers=layers)
    (tmp_path / "prompts.txt").write_text("once upon a time\n")
    names = "--target ./target --draft ./draft --prompt-file prompts.txt --json bench.json"
    options = "--smoke --dtype float32 --device cpu --sequences 2 --optimal 3 --drafters copies,model+copies"
    main([*options.split(), *names.split()])
    printed = capsys.readouterr().out
    result = json.loads((tmp_path / "bench.json").read_text())
    for row in result["rows"]:
        assert row["name"] in printed
        assert row["tokens_per_second"] > 0
        assert row["peak_bytes"] > 1 << 20
    kinds = {row["name"].split(",")[0] for row in result["rows"]}
    assert {"transformers assisted", "transformers prompt lookup", "specdec ERSD copies"} <= kinds
    with_model = {f"specdec ERSD {tree} model+copies" for tree in ("sequence(2)", "optimal(3)", "auto")}
    assert with_model <= kinds
    assert {"torch", "transformers", "processor", "load"} <= set(result["machine"])
    shares = [row["name"] for row in result["rows"] if row.get("bandwidth_share", 0) > 0]
    assert shares == [AUTOREGRESSIVE, "specdec autoregressive"]
    sentence = next(line for line in printed.splitlines() if "memory bandwidth" in line)
    assert all(name in sentence for name in shares)


def test_a_profile_counts_every_moment_once_and_leaves_everything_as_it_was(tiny):
    pair, job = tiny[0], Workload([5, 6, 7], 3, 12)
    each = Contestant("ours", "specdec", "float32", 1, ours(pair, "gsd", sequence(2), Sampling()))
    parts = profile(pair, each, job)
    outside = sum(parts[name] for name in ("races", "verify", "draft's choices", "commit", "rest"))
    assert parts["outside forwards"] == pytest.approx(outside)
    assert min(parts[name] for name in ("target forward", "draft forward", "rest")) > 0
    assert "session" not in vars(pair.target)
    assert not hasattr(Races.at, "__wrapped__")


SYNTHETIC = ["--synthetic", "tiny"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dtype", "int3"], "dtype = 'int3'"),
        (["--threads", "0"], "threads = '0'"),
        (["--tokens", "1"], "tokens"),
        (["--prompts", "4000"], "prompts = 4000"),
        (["--prompt-file", "/nowhere"], "prompt-file = '/nowhere'"),
        (["--synthetic", "9b"], "synthetic = '9b'"),
        ([*SYNTHETIC, "--target", "x"], "loads no models"),
        ([*SYNTHETIC, "--target-shape", "1,2"], "six numbers"),
        ([*SYNTHETIC, "--dtype", "int8"], "dtype = 'int8'"),
        (["--synthetic", "lfm2", "--vocabulary", "512"], "fixed sizes"),
        (["--synthetic", "lfm2", "--acceptance", "0"], "acceptance = 0"),
    ],
)
def test_an_option_that_does_not_fit_is_named(arguments, message):
    command = profiled if "--synthetic" in arguments else main
    with pytest.raises(ValueError, match=message):
        command(["--dtype", "float32", "--device", "cpu", *arguments])


@pytest.mark.usefixtures("small_copies")
def test_a_smoke_run_of_a_synthetic_pair_also_profiles_its_rounds(tmp_path, capsys):
    options = ["--synthetic", "tiny", "--dtype", "float32", "--device", "cpu", "--smoke", "--assisted", "0"]
    trees = ["--methods", "ersd", "--sequences", "2", "--optimal", "3", "--json", str(tmp_path / "b.json")]
    profiled([*options, *trees])
    result = json.loads((tmp_path / "b.json").read_text())
    own = {row["name"] for row in result["rows"] if row["kind"] == "specdec"}
    assert result["profile_ms"].keys() == own
    assert "races + verify" in capsys.readouterr().out
    assert result["pair"]["synthetic"] == "tiny"
    assert result["pair"]["vocab_size"] == PRESETS["tiny"].vocab_size


@pytest.mark.usefixtures("small_copies")
def test_a_target_with_states_is_compared_and_the_copies_of_its_states_are_timed(
    tmp_path, monkeypatch, capsys
):
    sizes = {"layer_types": ["conv", "full_attention"], "intermediate_size": 64}
    monkeypatch.setattr(states, "FAMILIES", {"lfm2": ("Lfm2", sizes)})
    monkeypatch.setattr(states, "VOCABULARY", 512)
    monkeypatch.setattr(states, "_TARGET", states._TARGET | {"vocab_size": 512})
    monkeypatch.setattr(states, "_SIZES", states._SIZES | {"vocab_size": 512})
    options = ["--synthetic", "lfm2", "--dtype", "float32", "--device", "cpu", "--smoke", "--methods", "gsd"]
    profiled([*options, "--sequences", "2", "--json", str(tmp_path / "b.json")])
    result = json.loads((tmp_path / "b.json").read_text())
    assert result["pair"]["target"].startswith("lfm2")
    assert "specdec GSD sequence(2)" in capsys.readouterr().out
    assert all(parts["copies of states"] > 0 for parts in result["profile_ms"].values())


def test_questions_are_put_to_a_chat_model_as_a_user_s():
    tokenizer = byte_level_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}"
    pair = specdec.ModelPair(tiny_model("llama", vocab_size=len(tokenizer)), tokenizer=tokenizer)
    plain, chat = (_prompts(parser().parse_args(options), pair, 2) for options in ([], ["--chat"]))
    question, opening = (path.read_text().splitlines()[0] for path in (QUESTIONS, PROMPTS))
    assert chat[0] == pair.chat_prompt(question) != pair.encode(question)
    assert plain[0] == pair.encode(opening)


@pytest.fixture
def llama_server():
    """A server that answers like llama-server and stores its requests."""

    state = {"asked": [], "status": 200, "tokens": None}

    def answer(request):
        state["asked"].append(request)
        tokens = state["tokens"] or request["max_tokens"]
        timings = {"predicted_n": tokens, "draft_n": 2 * tokens, "draft_n_accepted": tokens // 2}
        return state["status"], json.dumps({"tokens": [1] * tokens, "timings": timings}).encode()

    with answering(answer) as url:
        yield state, url


def test_a_llama_server_gets_the_token_ids_and_its_row_has_ratios_but_no_processor_time(llama_server):
    requests, url = llama_server[0]["asked"], llama_server[1]
    each = [contestant(AUTOREGRESSIVE, 2.0, []), server(f"drafting={url}/", Sampling(0.7, 5, 0.9), 1)]
    samples = interleaved(each, [Workload([7, 8, 9], seed, 10) for seed in range(2)])
    assert [body["seed"] for body in requests] == [0, 1]
    settings = {"prompt": [7, 8, 9], "max_tokens": 10, "temperature": 0.7, "top_k": 5, "top_p": 0.9}
    assert settings.items() <= requests[0].items()
    row = rows(each, samples, peaks(each, Workload([7], 0, 2), torch.device("cpu")), {})[1]
    assert (row["name"], row["tokens_per_call"], row["peak_bytes"]) == ("llama-server drafting", 2.0, None)
    assert row["ratio"]["autoregressive"]["value"] > 1
    assert row["processor_time_ratio"]["autoregressive"] is None
    assert "llama-server drafting" in table([row])


@pytest.mark.parametrize("option", ["http://127.0.0.1:8080", "plain=", "=http://x", "plain=127.0.0.1:8080"])
def test_a_server_is_a_name_and_an_address(option):
    with pytest.raises(ValueError, match=re.escape(f"server = {option!r} is not NAME=URL")):
        server(option, Sampling(), 1)


@pytest.mark.parametrize(
    ("status", "tokens", "error", "message"),
    [
        (503, None, ConnectionError, "/completions refused, 503"),
        (200, 3, ValueError, "wrote 3 tokens, but 8 were requested"),
    ],
)
def test_a_server_that_fails_or_stops_early_is_named(llama_server, status, tokens, error, message):
    state, url = llama_server
    state |= {"status": status, "tokens": tokens}
    with pytest.raises(error, match=message):
        server(f"plain={url}", Sampling(), 1).run(Workload([1], 0, 8))
