"""A draft with another tokenizer: ERSD's text, the other rules' distribution, and the proposed tokens."""

from __future__ import annotations

import itertools
import json
import math
import os
import pickle
import random
from pathlib import Path

import pytest
import tokenizers
import torch
import transformers

import specdec
from research.audit.openvino_graph import convert_pair
from specdec.bench import command as bench_command
from specdec.decoding.batch import generate_many
from specdec.decoding.engine import Engine
from specdec.decoding.shared_mass import measure_shared_mass
from specdec.decoding.trees import Trees
from specdec.exactness.audit import command as audit_command
from specdec.exactness.losslessness import joint_distribution
from specdec.methods import METHODS
from specdec.models import HFModel, MarkovModel, batching
from specdec.models.other_tokenizer.contexts import Retokenizer
from specdec.models.other_tokenizer.strings import Strings, shared_ids
from specdec.terminal import command as terminal
from specdec.topology import Topology, batch, sequence, specinfer
from tests.helpers.distributions import (
    FALSE_ALARM,
    OTHER_RULES,
    TREE,
    chi_square_p_value,
    first_tokens,
    random_table,
)
from tests.helpers.sessions import scored
from tests.helpers.texts import endless, ersd_as_plain, together_as_alone
from tests.helpers.tiny_checkpoints import save_checkpoint, tiny_model
from tests.helpers.tokenizers import SPACE, TRAINED, bytes_in_python, trained_tokenizer

PYTHON = "bytes, in Python"
RING = [*TRAINED, PYTHON]
PAIRS = [*zip(RING, [*RING[1:], RING[0]], strict=True)]
"""Kinds of tokenizers of the target and the draft: each kind is once the target's and once the draft's."""
PLANES = [0, 0x300, 0x600, 0x2000, 0xA000, 0xFE00, 0x1F300, 0xE0000]
"""The positions at which the characters of random prompts begin."""
PROMPTS = ["Once upon a time", "", "The caf", "\n\n\t  日本", "<|endoftext|>One day,  "]


@pytest.fixture(scope="session")
def kinds():
    tokenizers = {kind: trained_tokenizer(kind, 320 + 20 * n) for n, kind in enumerate(TRAINED)}
    return tokenizers | {PYTHON: bytes_in_python()}


def small_model(tokenizer, seed):
    """A small Llama over a tokenizer's ids, and a few ids of padding."""
    ends = dict.fromkeys(("bos_token_id", "eos_token_id"))
    sizes = {"num_hidden_layers": 1, "max_position_embeddings": 1024}
    return tiny_model("llama", seed=seed, vocab_size=len(tokenizer) + 3, **sizes, **ends)


@pytest.fixture(scope="session")
def pairs(kinds):
    result = {}
    for number, (target, draft) in enumerate(PAIRS):
        models = (small_model(kinds[kind], seed) for kind, seed in ((target, number), (draft, 100 + number)))
        target_model, draft_model = map(HFModel, models)
        result[target, draft] = specdec.ModelPair(target_model, draft_model, kinds[target], kinds[draft])
    return result


DIFFICULT = [
    *("e\u0301\u0323", "\u0301", "👩\u200d👩\u200d👧", "🏳\ufe0f\u200d🌈", "ﬁÅÅ", "\ufeff", "\ufffd"),
    *("العربية", "עברית\u200f", "\u202eabc\u202c", "日本語", "   ", "\n\n\n", "\t \r\n", " \u00a0\u3000"),
    *("<|endoftext|>", "<unk>", "<s>", "<pad>", "<0xE2>", "[UNK]", SPACE, "##ing", "Ġthe", "a</w>", "\0"),
    *(" the", "'s", "x" * 90),
]


def difficult_prompt(pair, chance):
    """Tokens of difficult and random pieces of text. The last piece may be cut inside a character."""
    characters = (chr(chance.choice(PLANES) + chance.randrange(256)) for _ in range(20))
    ids = pair.encode("".join(chance.choices([*DIFFICULT, *characters], k=20)))
    return ids[: len(ids) - chance.randrange(4)] or ids


@pytest.mark.parametrize("kind", PAIRS, ids=" <- ".join)
def test_ersd_writes_the_text_of_plain_decoding(pairs, kind):
    """700 tokens of each pair in float32, by both ways to draft in turns, after difficult prompts.

    SPECDEC_TEXTS=50 adds as many random prompts.
    """
    pair, chance = endless(pairs[kind]), random.Random(1)
    prompts = [pair.encode(prompt) for prompt in PROMPTS]
    prompts.append([chance.randrange(pair.vocab_size) for _ in range(40)])
    prompts += [difficult_prompt(pair, chance) for _ in range(int(os.environ.get("SPECDEC_TEXTS", "1")))]
    trees = [sequence(4), specinfer(8), Topology([(0,), (1,), (0, 0), (1, 0), (0, 0, 0)])]
    shared = set(pair.draft.shared_ids.tolist())
    for seed, prompt in enumerate(prompts):
        drafter, tree = ("strings", sequence(1 + seed % 4)) if seed % 2 else (None, trees[seed // 2 % 3])
        [drafted] = ersd_as_plain(pair, prompt, [tree], [seed], drafter=drafter, max_new_tokens=100)
        drafted_ids = {node.token_id for round in drafted.rounds for node in round.nodes}
        assert drafted_ids
        assert drafter or drafted_ids <= shared


OURS = [*"abcde", "ab", "ba", "cd", "de", "ea"]
THEIRS = [*"edbac", "ab", "bc", "cd", "cb", "dd"]


def letters_tokenizer(pieces):
    """A tokenizer of these pieces, which does not split words first."""
    merges = [(piece[:-1], piece[-1]) for piece in pieces if len(piece) > 1]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({p: i for i, p in enumerate(pieces)}, merges))
    tokenizer.decoder = tokenizers.decoders.Fuse()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def letters_pair():
    """Ten tokens each, seven of them shared. The draft gives the other three a part of its probability."""
    target = MarkovModel(random_table(10, 1, seed=1, concentration=2.0), "target")
    draft = MarkovModel(random_table(10, 1, seed=2), "draft")
    return specdec.ModelPair(target, draft, letters_tokenizer(OURS), letters_tokenizer(THEIRS))


def begun(pair, method, topology, seed, verifier=None):
    settings = specdec.stream(pair, [0], method=method, topology=topology, max_new_tokens=4, seed=seed)
    return first_tokens(Engine(pair, settings.settings, Trees(topology), (0,), seed, verifier).rounds(), 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "topology"),
    [*zip(["ersd", "gsd", *OTHER_RULES], itertools.cycle([TREE, sequence(2), batch(3)]), strict=False)],
)
def test_every_rule_keeps_the_targets_distribution(method, topology):
    """A χ² test of the first two of ten tokens, 700 texts. A false alarm has probability 1e-6 for each."""
    pair = letters_pair()
    assert len(pair.draft.shared_ids) == 7
    runs = [begun(pair, method, topology, seed) for seed in range(700)]
    assert chi_square_p_value(runs, joint_distribution(pair.target, [0], 2)) > FALSE_ALARM


@pytest.mark.parametrize("method", ["gsd", "specinfer"])
def test_without_renormalising_q_the_distribution_is_another(method):
    """Negative control: verification gets the draft's q over all of the draft's own tokens."""
    pair = letters_pair()

    def unnormalised(drafted, log_p, noise):
        log_q = [None if row is None else row + math.log(0.5) for row in drafted.log_q]
        return METHODS[method].verify(drafted._replace(log_q=log_q), log_p, noise)

    runs = [begun(pair, method, batch(3), seed, unnormalised) for seed in range(700)]
    assert chi_square_p_value(runs, joint_distribution(pair.target, [0], 2)) < FALSE_ALARM


def test_q_is_the_drafts_distribution_on_shared_strings_renormalised():
    pair = letters_pair()
    [logits] = scored(pair.draft, pair.encode("ac"), pair.encode("b"))
    # the draft reads "acb" as "a" and "cb"
    law = pair.draft.draft.log_table.exp()[THEIRS.index("cb")]
    shared = {token: float(law[THEIRS.index(token)]) for token in OURS if token in THEIRS}
    assert set(shared) == {*"abcde", "ab", "cd"}
    expected = [shared.get(token, 0.0) / sum(shared.values()) for token in OURS]
    torch.testing.assert_close(logits.softmax(-1), torch.tensor(expected, dtype=logits.dtype))


def bytes_tokenizer(alphabet):
    """Every byte is a token, with its place in this alphabet as its id. So each text has only one
    tokenization."""
    vocabulary = {token: i for i, token in enumerate(alphabet)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)


@pytest.mark.parametrize(("method", "drafter"), [("ersd", None), ("gsd", None), ("ersd", "strings")])
@pytest.mark.parametrize("capability", ["tree", "sequence"])
def test_the_target_under_other_ids_is_always_accepted(method, drafter, capability):
    """The draft's q is p at every node, so contexts, caches and matched ids are right in every round."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    ours, theirs = bytes_tokenizer(alphabet), bytes_tokenizer([*alphabet[100:], *alphabet[:100]])
    letters = [ours.get_vocab()[each] for each in "abcdefghij.,ĠĊ"]
    table = torch.zeros(256, 256, dtype=torch.float64)
    table[:, letters] = random_table(256, 1, seed=3)[:, : len(letters)]
    table /= table.sum(-1, keepdim=True)
    draft = MarkovModel(table.roll((-100, -100), (0, 1)), "same")
    draft.capability = capability
    pair = specdec.ModelPair(MarkovModel(table, "target"), draft, ours, theirs)
    topology = sequence(4) if capability == "sequence" or drafter else specinfer(8)
    settings = {"method": method, "drafter": drafter, "topology": topology, "max_new_tokens": 300, "seed": 4}
    g = specdec.generate(pair, "ab c", **settings)
    assert all(round.tokens[-1].kind == "bonus" for round in g.rounds[:-1])


def test_a_long_text_is_remembered_as_far_as_the_drafts_context_reaches(kinds):
    """Texts longer than the draft's context, in one piece or several, alone or in a batch."""
    draft = MarkovModel(random_table(len(kinds["byte-level"]), 1, seed=1), context_length=20)
    target = MarkovModel(random_table(len(kinds["metaspace"]), 1, seed=2))
    pair = endless(specdec.ModelPair(target, draft, kinds["metaspace"], kinds["byte-level"]))
    prompts = ["the cat and the dog sat on the mat " * n for n in (1, 9, 30)]
    for settings in ({"method": "gsd", "topology": TREE}, {"drafter": "strings"}):
        together_as_alone(pair, prompts, [0, 1, 2], max_new_tokens=90, **settings)
    session = pair.draft.session()
    session.prefill(pair.encode(prompts[2]))
    assert session.length == len(pair.encode(prompts[2]))
    assert session._session.length <= 20


@pytest.mark.parametrize("drafter", [None, "strings"])
def test_several_texts_share_the_drafts_forwards(pairs, drafter, monkeypatch):
    pair, shared = endless(pairs["byte-level", "byte fallback"]), []
    score = batching._scored

    def counted(requests, pended):
        shared.append((requests[0].session.model.vocab_size, len(requests)))
        return score(requests, pended)

    monkeypatch.setattr(batching, "_scored", counted)
    generate_many(pair, PROMPTS[:3], seeds=[0, 1, 2], drafter=drafter, max_new_tokens=9, topology=sequence(1))
    of_draft = [count for size, count in shared if size == pair.draft.draft.vocab_size]
    assert of_draft.count(3) >= 4


def test_strings_write_tokens_of_the_target_that_the_draft_lacks():
    """A draft of single letters writes "ab", which is one token of the target."""
    target = MarkovModel(random_table(10, 0, seed=1))
    draft = MarkovModel(torch.tensor([0.0, 0.5, 0.5]))
    pair = specdec.ModelPair(target, draft, letters_tokenizer(OURS), letters_tokenizer("cab"))
    g = specdec.generate(pair, [0], drafter="strings", max_new_tokens=60, seed=1)
    proposed = {OURS[node.token_id] for round in g.rounds for node in round.nodes}
    assert proposed == {"a", "b", "ab", "ba"}
    assert g.draft.endswith("strings")
    assert g.token_ids == specdec.generate(pair, [0], method="ar", max_new_tokens=60, seed=1).token_ids


@pytest.mark.parametrize("role", ["target", "draft"])
def test_ids_that_a_model_does_not_score_are_neither_read_nor_proposed(kinds, role):
    """Tokens that were only added to a tokenizer."""
    tokenizers = {"target": trained_tokenizer("byte-level"), "draft": trained_tokenizer("byte fallback")}
    models = [MarkovModel(random_table(len(each), 1, seed=1)) for each in tokenizers.values()]
    tokenizers[role].add_tokens([" the cat"])
    pair = endless(specdec.ModelPair(*models, *tokenizers.values()))
    prompt = pair.encode("a the dog")
    for drafter in (None, "strings"):
        ersd_as_plain(pair, prompt, [None], [1], drafter=drafter)
    reader = pair.draft.retokenizer
    context = reader.after(reader.start, tokenizers["target"]("say the cat")["input_ids"])
    assert max(reader.ids(context)) < models[1].vocab_size
    ids = pair.draft.target_ids(tokenizers["draft"]("say the cat")["input_ids"])
    assert max(ids) < models[0].vocab_size


def test_strings_are_refused_where_they_do_not_fit():
    pair = letters_pair()
    own = specdec.ModelPair(pair.target, pair.target)
    for refused, settings, message in (
        *((pair, {"method": method}, "use 'ersd'") for method in ["gsd", *OTHER_RULES]),
        (own, {}, "another tokenizer; target has the target's"),
        (specdec.ModelPair(pair.target), {}, "needs a draft model, and this pair has none"),
        (pair, {"topology": TREE}, "use sequence"),
        (pair, {"topology": "auto"}, "use sequence"),
    ):
        with pytest.raises(ValueError, match=message):
            specdec.generate(refused, [0], drafter="strings", **settings)


def test_the_draft_reads_the_targets_chat_template_without_tokens_that_it_lacks():
    """Both have a template; the draft knows one of the target's three special tokens."""
    ours, theirs = trained_tokenizer("byte-level"), trained_tokenizer("byte fallback", end="</s>")
    ours.add_special_tokens({"additional_special_tokens": ["<|user|>", "<|assistant|>"]})
    theirs.add_special_tokens({"additional_special_tokens": ["<|user|>", "[INST]"]})
    ours.chat_template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}<|assistant|>"
    theirs.chat_template = "{% for m in messages %}[INST]{{ m.content }}{% endfor %}"
    pair = specdec.ModelPair(small_model(ours, 1), small_model(theirs, 2), ours, theirs)
    prompt = pair.chat_prompt("the cat?", ["the dog", "the mat"])
    assert (
        pair.tokenizer.decode(prompt)
        == "<|user|>the dog\n<|assistant|>the mat\n<|user|>the cat?\n<|assistant|>"
    )
    reader = pair.draft.retokenizer
    read = theirs.convert_ids_to_tokens(reader.ids(reader.after(reader.start, prompt)))
    text = "".join(read).replace(SPACE, " ").replace("<0x0A>", "\n").replace("<0x3F>", "?")
    assert text == "<|user|>the dog\nthe mat\n<|user|>the cat?\n"
    for drafter in (None, "strings"):
        ersd_as_plain(pair, prompt, [sequence(3)], [1], drafter=drafter, max_new_tokens=80)


def reader_of(target, draft):
    """The reader of texts of the target's tokenizer for a draft with this one."""
    return Retokenizer(Strings.of(target), Strings.of(draft), target, draft, len(draft))


def test_a_text_is_read_alike_in_every_division_into_pieces(kinds):
    chance = random.Random(0)
    text = "Once upon a time,\n\nthe café: 日本語の本を読む。🙂 didn't — " * 3 + "x" * 200 + " end"
    for target, draft in PAIRS:
        reader = reader_of(kinds[target], kinds[draft])
        ids = kinds[target](text)["input_ids"]
        ids += [chance.randrange(len(kinds[target])) for _ in range(60)]
        context, pieces = reader.after(reader.start, ids), reader.start
        while ids:
            count = chance.randrange(1, 9)
            pieces, ids = reader.after(pieces, ids[:count]), ids[count:]
        assert pieces == context


@pytest.mark.parametrize("draft", ["byte-level", "metaspace", "byte fallback", "wordpiece", PYTHON])
def test_a_text_becomes_the_drafts_own_tokenization(kinds, draft):
    text = "Once upon a time, the cat's friends didn't like 12 pears."
    ours, theirs = kinds["byte fallback" if draft == "byte-level" else "byte-level"], kinds[draft]
    reader = reader_of(ours, theirs)
    context = reader.after(reader.start, ours(text, add_special_tokens=False)["input_ids"])
    assert list(reader.ids(context)) == theirs(text, add_special_tokens=False)["input_ids"]


def test_special_added_and_padded_tokens_are_matched_by_what_they_are(kinds):
    ours = trained_tokenizer("byte-level", end="<|im_end|>")
    theirs = trained_tokenizer("byte fallback", end="</s>")
    for tokenizer, added in ((ours, ["<user>", "<only ours>"]), (theirs, ["<only theirs>", "<user>"])):
        tokenizer.add_tokens(["New York"])
        tokenizer.add_special_tokens({"additional_special_tokens": added})
    target, draft = Strings.of(ours), Strings.of(theirs)
    pairs = dict(zip(*shared_ids(target, draft, 10_000, 10_000), strict=True))
    a, b = ours.get_vocab(), theirs.get_vocab()
    for token, other in (("<|im_end|>", "</s>"), ("<user>", "<user>"), ("New York", "New York")):
        assert pairs[a[token]] == b[other]
    for token in ("<unk>", "<pad>", "<only ours>"):
        assert a[token] not in pairs
    assert pairs[a["Ã"]] == b["<0xC3>"]
    assert pairs[a["."]] == b["."]  # the ordinary token, and not the byte token of the same string
    assert pairs[a["Ġthe"]] == b["▁the"]
    assert len(set(pairs.values())) == len(pairs)
    few = dict(zip(*shared_ids(target, draft, 300, 290), strict=True))
    assert few
    assert max(few) < 300
    assert max(few.values()) < 290


def test_a_case_that_the_draft_lacks_is_never_proposed(kinds):
    target, draft = Strings.of(kinds["byte-level"]), Strings.of(kinds["wordpiece, lower case"])
    ids, _ = shared_ids(target, draft, 10_000, 10_000)
    strings = [target.by_id[each] for each in ids if target.by_id[each]]
    assert b" the" in strings
    assert all(string == string.lower() for string in strings)


def test_what_can_not_draft_is_named(tmp_path):
    model = MarkovModel(random_table(10, 0, 0))
    with pytest.raises(ValueError, match="share no token"):
        specdec.ModelPair(model, model, letters_tokenizer("abc"), letters_tokenizer("xyz"))
    with pytest.raises(ValueError, match="which OpenVINO requires"):
        convert_pair(letters_pair(), tmp_path)
    with pytest.raises(ValueError, match="give both"):
        specdec.ModelPair(model, model, None, letters_tokenizer("xyz"))
    with pytest.raises(ValueError, match="not a tokenizer"):
        specdec.ModelPair(model, model, letters_tokenizer("abc"), "xyz")


def test_a_pair_can_be_pickled():
    pair = letters_pair()
    texts = [
        specdec.generate(each, "abc", max_new_tokens=20, seed=1).text
        for each in (pair, pickle.loads(pickle.dumps(pair)))
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("pays", [True, False])
def test_what_the_draft_reaches_is_the_targets_probability_on_shared_tokens(pays):
    pair = letters_pair()
    assert measure_shared_mass(specdec.ModelPair(pair.target, pair.target)) is None
    shared = [OURS.index(token) for token in OURS if token in THEIRS]
    p = torch.full((10,), 0.1 if pays else 0.3, dtype=torch.float64)
    p[shared] = 0.1 if pays else 0.1 / 7
    pair = specdec.ModelPair(
        MarkovModel(p), pair.draft.draft, letters_tokenizer(OURS), letters_tokenizer(THEIRS)
    )
    assert "7 of the target's tokens." in pair.draft.note
    # all prompts must consist of these letters
    pair.chat_prompt = lambda text: [len(text) % 10]
    assert measure_shared_mass(pair) == pytest.approx(0.7 if pays else 0.1)
    assert ("70%" if pays else "too little for this draft to pay") in pair.draft.note


def test_every_command_takes_a_draft_of_another_tokenizer(kinds, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("specdec.bench.bandwidth.BYTES", 1 << 20)
    for role, kind in (("target", "byte-level"), ("draft", "byte fallback")):
        save_checkpoint(tmp_path / role, "llama", tokenizer=kinds[kind])
    Path("prompts.txt").write_text("once upon a time\n")
    pair = ["--target", "target", "--draft", "draft"]
    settings = ["--tokens", "9", "--topology", "sequence(2)", "--seed", "1"]
    terminal.main(["the cat", *pair, *settings, "--compare", "--explain", "--json"])
    out, err = capsys.readouterr()
    assert {"ar", "ersd"} <= {each["method"] for each in json.loads(out) if each["same_text"]}
    assert "another tokenizer" in err
    options = ["--smoke", "--dtype", "float32", "--device", "cpu", "--methods", "ersd", "--sequences", "2"]
    bench_command.main([*options, *pair, "--prompt-file", "prompts.txt", "--json", "bench.json"])
    names = {row["name"] for row in json.loads(Path("bench.json").read_text())["rows"]}
    assert {"specdec ERSD sequence(2)", "specdec ERSD strings(2)", "transformers assisted, k = 2"} <= names
    audited = ["--engine", "transformers-assisted", "ours-ersd", "--tokens", "2", "--top-k", "4"]
    audit_command.main([*audited, *pair, "--decodes", "100", "--json", "audit.json"])
    reports = json.loads(Path("audit.json").read_text())
    assert reports["ours-ersd, top_k 4"]["verdict"] == "no difference found"
    assert reports.keys() == {"ours-ersd, top_k 4", "transformers-assisted, top_k 4"}
