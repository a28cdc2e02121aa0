"""Every number that the lessons state is computed again in another way."""

import json
import math
import re
import statistics
from string import Formatter
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

import specdec
from components.be_draft import panel as be_draft
from components.be_draft.rounds import played
from components.decode import traces
from components.lessons import facts as lesson_facts
from components.lessons import panel as lessons
from components.lessons import record_forwards
from components.race_lab import panel as race_lab
from components.tree_lab import panel as tree_lab
from specdec import optimal, theory, topology
from specdec.exactness.audit.evidence import POWER
from specdec.methods import METHODS, Drafted
from specdec.race import race_of

TEXTS = json.loads(lessons.TEXTS.read_text())
FACTS = {name: facts() for name, facts in lesson_facts.LESSONS.items()}
LESSONS = {lesson["id"]: lesson for lesson in lessons.lessons()}
QUESTIONS = [
    pytest.param(lesson, question, id=f"{lesson['id']}-{number}")
    for lesson in LESSONS.values()
    for number, question in enumerate(lesson["questions"], start=1)
]
RACES = 200_000
NEAR = 0.006  # five standard errors of a share of this many


def accepted(p, q, index=0):
    """Shares of races in which the child with each index is accepted, by counting."""
    p, q = (torch.tensor(distribution, dtype=torch.float64) for distribution in (p, q))
    counted = race_lab.accepted_indices(p, q, RACES, seed=11)
    return {method: float((indices == index).double().mean()) for method, indices in counted.items()}


def distribution(text):
    """The numbers of a list in the notation of the address."""
    return tuple(float(value) for value in text.split(","))


def first(probabilities, e):
    """The winner of a race by the decoder."""
    return race_of(torch.tensor(e).double().log()).winner(torch.tensor(probabilities).double().log())


def recorded(name):
    return json.loads((traces.FOLDER / f"{name}.json").read_text())


# ---------------------------------------------------------------- form


def test_there_are_twelve_lessons_of_three_questions_and_lesson_0_says_why_it_is_faster():
    assert list(LESSONS) == list(lesson_facts.LESSONS)
    assert len(LESSONS) == 12
    assert next(iter(LESSONS.values()))["title"] == "Why is it faster?"
    assert all(len(lesson["questions"]) == 3 for lesson in LESSONS.values())


@pytest.mark.parametrize(("lesson", "question"), QUESTIONS)
def test_an_answer_can_be_predicted_and_its_reveal_opens_a_part_of_the_page(lesson, question):
    if "choices" in question:
        assert question["answer"] in range(len(question["choices"]))
    else:
        least, most, step = question["range"]
        assert least <= question["answer"] <= most + 1e-9
        # the slider can come close enough to the answer to count as right
        assert abs(round((question["answer"] - least) / step) * step + least - question["answer"]) <= (
            question["close"] + 1e-9
        )
        # the slider's first position is not a right answer
        assert abs((least + most) / 2 - question["answer"]) > question["close"] + step
    for set_up in (question["after"], question["before"], lesson["open"]):
        assert set_up["look"].startswith("#")
        assert set_up["tab"] in TABS
        assert all(isinstance(value, str) for part in set_up["parts"].values() for value in part.values())


@pytest.mark.parametrize("lesson", LESSONS.values(), ids=lambda lesson: lesson["id"])
def test_every_step_has_a_note_and_its_minutes_and_its_boards_exist(lesson):
    for step in (lesson, *lesson["questions"]):
        assert step["say"].endswith((".", "?"))
        assert step["minutes"] in range(1, 6)
    assert 4 <= sum(step["minutes"] for step in (lesson, *lesson["questions"])) <= 12
    names = {set_up["parts"]["board"]["name"] for set_up in set_ups(lesson) if "board" in set_up["parts"]}
    boards = lesson.get("boards", {})
    assert names | ({lesson["figure"]} if boards else set()) <= set(boards)
    for board in boards.values():
        for row in board["rows"]:
            assert all(float(value) >= 0 for _, value, *_ in row.get("bars", row.get("stack", [])))
            assert {"bars", "stack", "text"} & set(row)


def set_ups(lesson):
    of_questions = [question[when] for question in lesson["questions"] for when in ("before", "after")]
    return [lesson["open"], *of_questions]


TABS = re.findall(
    r'^ +.*\("(\w+)", "[A-Z]', (lessons.assets.ASSETS.parent / "app.py").read_text(), re.MULTILINE
)


def test_what_a_lesson_leads_to_is_there():
    assert {"live", "race", "trees", "lessons"} <= set(TABS)
    assert all(lesson["more"]["tab"] in TABS for lesson in TEXTS if "more" in lesson)


PLACES = r"(Lemma|Theorem) \d\.\d|10,000"  # places in the paper, and the laboratory's number of races


def literal(text):
    return "".join(part for part, *_ in Formatter().parse(text))


def texts_of(value):
    if isinstance(value, dict):
        return [text for part in value.values() for text in texts_of(part)]
    if isinstance(value, list):
        return [text for part in value for text in texts_of(part)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("lesson", TEXTS, ids=lambda lesson: lesson["id"])
def test_no_measured_number_is_written_by_hand(lesson):
    """Decimals and percentages in the words and in the set-ups come only from the facts."""
    for text in texts_of(lesson):
        assert not re.search(r"\d[.,]\d|\d%", re.sub(PLACES, "", literal(text))), text


def test_each_recorded_pass_forwards_so_many_rows_and_keeps_none_of_them(pair, monkeypatch):
    session = pair.target.session()
    wrapped = Mock(wraps=session)
    monkeypatch.setattr(type(pair.target), "session", lambda model: wrapped)
    times = record_forwards.record(pair, passes=1)["target"]
    calls = [(len(call.args[0]), list(call.args[1])) for call in wrapped.forward.call_args_list]
    assert calls == [(count, list(range(-1, count - 1))) for count, _ in times]
    assert [count for count, _ in times] == list(FACTS["faster"]["ms"])
    assert session.length == record_forwards.PREFIX


def test_faster():
    facts, recorded_times = FACTS["faster"], json.loads(record_forwards.RECORDED.read_text())
    ms = dict(recorded_times["target"])
    assert facts["eight"] == pytest.approx(ms[8] / ms[1])
    # as the words say: rows share most of the work, and the more rows, the less each adds
    assert 1 < facts["eight"] < 6
    assert ms[2] / ms[1] < 1.5
    texts, drafted = zip(*facts["many"], strict=True)
    assert texts == (1, 4, 16, 40)
    assert list(drafted) == sorted(drafted, reverse=True)
    assert drafted[0] > drafted[-1] == 0
    assert facts["many_best"] == 0


def test_lesson_0_and_the_first_tab_show_the_same_measurement():
    facts, run = FACTS["faster"], recorded(traces.entries()[0]["name"])
    wholes = ([sum(timing[name]) for timing in run["timings"]] for name in ("run", "plain"))
    run_ms, plain_ms = (1000 * statistics.median(seconds) for seconds in wholes)
    assert len(run["timings"]) % 2  # an even number of repeats has two medians
    assert (facts["run_ms"], facts["plain_ms"]) == pytest.approx((run_ms, plain_ms))
    assert facts["run_ms"] == pytest.approx(facts["draft_ms"] + facts["check_ms"] + facts["choose_ms"])
    assert facts["gain"] == pytest.approx(facts["fewer"] / facts["longer"])
    assert (facts["calls"], facts["tokens"]) == (len(run["rounds"]), len(run["baseline"]))


def test_traversal():
    facts = FACTS["traversal"]
    p, q = facts["p"], facts["q"]
    table = [[torch.tensor(distribution).double().log()] * 3 for distribution in (p, q)]
    generator = torch.Generator().manual_seed(7)
    drafts = torch.multinomial(torch.tensor(q), 2 * RULED, True, generator=generator).reshape(-1, 2).tolist()
    uniforms = torch.rand(RULED, 6, generator=generator, dtype=torch.float64).tolist()
    accepted, both = 0, []
    for drafted, u in zip(drafts, uniforms, strict=True):
        noise = SimpleNamespace(
            test=lambda node, _, u=u: u[len(node) + 1], last=lambda node, u=u: u[3 + len(node)]
        )
        tree = Drafted(topology.sequence(2), [-1, *drafted], table[1])
        verdict = METHODS["traversal"].verify(tree, table[0], noise)
        accepted += len(verdict.rows)
        both += [len(verdict.rows) == 2] if drafted == [0, 1] else []
    assert 1 + accepted / RULED == pytest.approx(facts["traversal"], abs=0.05)  # seven standard errors
    assert all(both)
    assert facts["both"] == 1
    assert facts["gsd"] == pytest.approx(1 + 0.6 + 0.36)
    assert facts["order"] == 2
    assert facts["invariant"] == 1
    assert not METHODS["traversal"].drafter_invariant


RULED = 10_000


def test_one_call_writes_what_was_typed_right_and_one_word_more():
    facts, pair = FACTS["yourself"], specdec.load_pair("stories")
    opening = be_draft._OPENINGS[int(facts["opening"]) - 1]
    typed, target = (pair.encode(f"{opening} {facts[name]}") for name in ("typed", "target_text"))
    ids = pair.encode(opening)
    settings = {"temperature": 0.5, "seed": 19}  # the setting with which the tab opens
    alone = specdec.generate(pair, ids, method="ar", max_new_tokens=len(target) - len(ids), **settings)
    assert [*ids, *alone.token_ids] == target
    guessed = played(pair, ids, [typed[len(ids) :]], **settings)
    assert len(guessed.tokens) == facts["yielded"]
    assert guessed.tokens[-1].text.strip() == facts["own"]
    wrong = played(pair, ids, [pair.encode(f"{opening} dance")[len(ids) :]], **settings)
    assert len(wrong.tokens) == 1
    assert (facts["wrong_first"], facts["same_story"]) == (1, 2)


def test_referee():
    facts = FACTS["referee"]
    assert facts["checks"] * facts["alarm"] == pytest.approx(1)
    assert facts["power"] == POWER
    assert facts["found"] == pytest.approx(0.066, abs=0.001)
    assert facts["unseen"] == 2


# ---------------------------------------------------------------- numbers


def test_race():
    facts = FACTS["race"]
    assert facts["winner"] == first(facts["p"], facts["e"])
    assert facts["times"] == pytest.approx([e / p for e, p in zip(facts["e"], facts["p"], strict=True)])
    assert facts["share"] == facts["p"][1]
    assert accepted(facts["p"], (0, 1, 0))["ersd"] == pytest.approx(facts["share"], abs=NEAR)
    assert facts["doubled_p"][2] == 2 * facts["p"][2]
    assert math.fsum(facts["doubled_p"]) == pytest.approx(1)
    assert facts["doubled_time"] == pytest.approx(facts["times"][2] / 2)


def test_noise():
    facts = FACTS["noise"]
    p, q = facts["p"], facts["q"]
    assert accepted(p, p)["ersd"] == 1
    assert facts["equal"] == pytest.approx(1)
    assert accepted(p, q)["ersd"] == pytest.approx(facts["near"], abs=NEAR)
    generator = torch.Generator().manual_seed(1)
    draws = [torch.multinomial(torch.tensor(x), RACES, True, generator=generator) for x in (p, p, q)]
    assert float((draws[0] == draws[1]).double().mean()) == pytest.approx(facts["equal_apart"], abs=NEAR)
    assert float((draws[0] == draws[2]).double().mean()) == pytest.approx(facts["near_apart"], abs=NEAR)


def test_acceptance():
    facts = FACTS["acceptance"]
    p, q = facts["p"], facts["q"]
    first, second = accepted(p, q), accepted(p, q, index=1)
    assert first == pytest.approx({"ersd": facts["ersd"], "gsd": facts["gsd"]}, abs=NEAR)
    assert second == pytest.approx({"ersd": facts["ersd_second"], "gsd": facts["gsd_second"]}, abs=NEAR)
    assert facts["ersd_second"] > facts["gsd_second"]  # "catch up"
    assert facts["gsd"] == pytest.approx(sum(map(min, p, q))) == pytest.approx(1 - facts["tv"])
    assert facts["ersd_order"] == 2
    assert facts["lead_points"] == pytest.approx(
        100 * (3 - 2 * 2**0.5)
    )  # as the race laboratory's preset shows
    assert facts["bound"] == pytest.approx((1 - facts["tv"]) / (1 + facts["tv"]))
    assert facts["harmonic"] == pytest.approx(sum(a * b / (a + b) for a, b in zip(p, q, strict=True)))


def test_rejection_is_what_was_recorded():
    facts = FACTS["rejection"]
    round = recorded("early-rejection")["rounds"][facts["round"] - 1]
    (trial,) = round["steps"][0]["trials"]
    assert (facts["p_token"], facts["q_token"], facts["u"]) == (trial["p"], trial["q"], trial["u"])
    assert facts["u"] >= facts["ratio"] == pytest.approx(trial["p"] / trial["q"])
    assert facts["verdict"] == 1
    behind = ("No", "One", "Two", "Three", "Four").index(facts["behind_word"])
    assert facts["drafted"] == len(round["nodes"]) == 1 + behind
    assert [node["status"] for node in round["nodes"]] == ["rejected"] + ["unvisited"] * behind
    assert (facts["kept_behind"], facts["emitted"]) == (0, len(round["tokens"]))
    assert facts["token"] == f"“{round['nodes'][0]['text'].replace(' ', '␣')}”"


def test_the_residual_is_what_the_target_has_above_the_draft():
    facts = FACTS["rejection"]
    p, q = (distribution(facts[name]) for name in ("p_list", "q_list"))
    above = [max(target - draft, 0) for target, draft in zip(p, q, strict=True)]
    assert facts["residual_c"] == pytest.approx(above[2] / sum(above))
    assert facts["residual_words"] == "“a” 0%, “b” 25%, “c” 75%"


def test_trees():
    facts = FACTS["trees"]
    for name in ("coin", "good"):
        first, second = facts[name]
        assert facts[f"{name}_sequence"] == pytest.approx(1 + first + first * first)
        assert facts[f"{name}_batch"] == pytest.approx(1 + first + second)
        best = optimal.optimal_topology(facts[name], 2).paths
        assert best == (((0,), (0, 0)), ((0,), (1,)))[facts[f"{name}_best"]]
    pair = facts["pair"]
    assert facts["pair_best"] == pytest.approx(
        theory.expected_tokens(pair, optimal.dynamic_program_topology(pair, 8))
    )
    assert facts["pair_sequence"] == pytest.approx(sum(pair[0] ** i for i in range(9)))
    assert facts["pair_batch"] == pytest.approx(1 + sum(pair[:8]))


def test_drafter():
    facts = FACTS["drafter"]
    p, good, bad, e = (distribution(facts[f"{name}_list"]) for name in ("p", "good_q", "bad_q", "e"))
    assert first(p, e) == first(good, e) == facts["written"]
    assert facts["names"].split(",")[first(bad, e)] == facts["proposed"] == "sofa"
    assert facts["target_time"] == pytest.approx(e[0] / p[0])
    for name, q in (("good", good), ("bad", bad)):
        assert accepted(p, q)["ersd"] == pytest.approx(facts[name], abs=NEAR)


def test_the_target_alone_writes_ersd_s_text_and_not_gsd_s():
    facts = FACTS["drafter"]
    ersd, gsd = recorded("parting-ersd"), recorded("parting-gsd")
    lists = (gsd["rounds"], ersd["rounds"], ersd["baseline"])
    texts = [[token["id"] for round in rounds for token in round["tokens"]] for rounds in lists]
    assert [texts[0] == texts[2], texts[1] == texts[2]] == [False, True]
    assert facts["same_as_alone"] == 1
    shared, *rest = (facts["texts"][name] for name in ("shared", "gsd", "ersd", "alone"))
    words = ["".join(round["text"] for round in rounds).split() for rounds in (lists[0], lists[2], lists[2])]
    assert [(shared + text).split() for text in rest] == words
    assert gsd["seed"] == ersd["seed"]
    assert gsd["prompt"] == ersd["prompt"]


def test_lossless():
    facts = FACTS["lossless"]
    p, q = facts["p"], facts["q"]
    generator = torch.Generator().manual_seed(5)
    draft = torch.multinomial(torch.tensor(q), RACES, True, generator=generator)
    ratio = torch.tensor(p) / torch.tensor(q)
    accepted = torch.rand(RACES, generator=generator) < ratio[draft]
    assert float((accepted & (draft == 0)).double().mean()) == pytest.approx(facts["kept_a"], abs=NEAR)
    assert float((~accepted).double().mean()) == pytest.approx(facts["rejected"], abs=NEAR)
    redrawn = torch.multinomial(torch.tensor(p), RACES, True, generator=generator)
    wrong = torch.where(accepted, draft, redrawn)
    assert float((wrong == 0).double().mean()) == pytest.approx(facts["wrong_a"], abs=NEAR)
    assert facts["written_a"] == pytest.approx(p[0])
    assert facts["residual_a"] == 0
    assert facts["written_a"] + facts["added_a"] == pytest.approx(facts["wrong_a"])
    assert facts["added_a"] * facts["one_in"] == pytest.approx(facts["rejected"])


def test_limit():
    facts, pair = FACTS["limit"], lesson_facts.measured()
    assert facts["k_largest"] == tree_lab.MOST == 4 * facts["k_quarter"] == 2 * facts["k_half"]
    trees = {k: theory.expected_tokens(pair, optimal.optimal_topology(pair, k)) for k in (16, 96, 192, 384)}
    assert facts["tokens_small"] == pytest.approx(trees[facts["k_small"]])
    assert facts["tokens_largest"] == pytest.approx(trees[384])
    assert facts["gain_first"] == pytest.approx(trees[192] - trees[96])
    assert facts["gain_second"] == pytest.approx(trees[384] - trees[192])
    assert facts["gain_order"] == 1
    assert facts["gain_second"] == pytest.approx(facts["gain_first"], rel=0.1)  # "about the same again"
    assert facts["sequence_limit"] == pytest.approx(theory.expected_tokens(pair, topology.sequence(384)))
    assert facts["tokens_largest"] < facts["lemma"] < facts["theorem"]
    assert facts["wish"] > facts["lemma"]
    assert facts["reachable"] == 1


def test_limits_are_the_theory_s_and_those_that_the_laboratory_shows():
    facts, pair = FACTS["limit"], lesson_facts.measured()
    assert facts["lemma"] == pytest.approx(theory.lemma_bound(pair, 384))
    assert facts["theorem"] == pytest.approx(theory.tunstall_bound(pair, tree_lab.VOCABULARY, 384))
    grown = tree_lab.grown({"acceptance": list(pair)})
    assert grown["bounds"][-1] == [384, pytest.approx(facts["lemma"]), pytest.approx(facts["theorem"])]
    assert grown["tokens"]["optimal"][384] == pytest.approx(facts["tokens_largest"])
