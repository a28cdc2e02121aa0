"""Limits come from one place, and each error message has the limit's name and value."""

import json
from dataclasses import fields

import pytest

from components.page.settings import TABLE, VisitorSettings
from components.runs import run
from components.server import options
from components.visitors import limits

NAMES = [limit.name for limit in fields(limits.Limits)]


def parsed(arguments, environment=None):
    return limits.from_options(options.parse(arguments, environment or {}))


@pytest.mark.parametrize("name", NAMES)
def test_every_limit_is_an_option_and_a_variable(name):
    option, variable = "--" + name.replace("_", "-"), f"SPECDEC_{name.upper()}"
    assert getattr(parsed([option, "17"]), name) == 17
    assert getattr(parsed([], {variable: "18"}), name) == 18
    assert getattr(parsed([option, "17"], {variable: "18"}), name) == 17
    assert parsed([]) == parsed([], {variable: ""}) == limits.Limits()


@pytest.mark.parametrize("value", [0, -1, True, 2.5, "8"])
def test_a_limit_is_a_whole_number_from_one_up(value):
    with pytest.raises(ValueError, match=r"seats = .* is not a whole number of at least 1"):
        limits.Limits(seats=value)


def test_a_variable_that_is_no_number_is_named():
    with pytest.raises(ValueError, match="SPECDEC_SEATS = 'many' is not a whole number"):
        options.parse([], {"SPECDEC_SEATS": "many"})


def test_every_option_with_a_variable_names_it_in_the_help(capsys):
    with pytest.raises(SystemExit):
        options.parse(["--help"], {})
    help_text = capsys.readouterr().out
    for name in [name for group in options.GROUPS.values() for name in group]:
        variable = f"SPECDEC_{name.upper().replace('-', '_')}"
        assert f"--{name}" in help_text
        assert (variable in help_text) == (name not in ("host", "port", "share")), variable


@pytest.mark.parametrize(
    ("limit", "changes", "message"),
    [
        ({"new_tokens": 10}, {"max_new_tokens": 11}, "length = 11 is not a whole number from 1 to 10"),
        ({"draft_tokens": 3}, {"k": 4}, "k = 4 is not a whole number from 1 to 3"),
        (
            {"prompt_characters": 5},
            {"prompt": "123456"},
            "The prompt is too long: 6 characters; at most 5 are allowed",
        ),
        (
            {"prompt_tokens": 2},
            {"prompt": "Once upon a time"},
            "The prompt is too long: 4 tokens; at most 2 are allowed",
        ),
    ],
)
def test_a_limit_that_bites_is_told(pair, bounds, limit, changes, message):
    bounds(**limit)
    assert message_of(pair, changes).removesuffix(".") == message


def message_of(pair, changes):
    """The message of a run with these settings, which fails."""
    settings = VisitorSettings(**({"prompt": "Once", "max_new_tokens": 4, "k": 2, "seed": 1} | changes))
    updates = [json.loads(update) for update in run.updates(pair, settings)]
    [last] = [update for update in updates if not update.get("waits")]
    assert last["phase"] == "error"
    return last["message"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": None}, "prompt = None is not a text"),
        ({"prompt": {"a": "x" * 1000}}, "prompt = {'a'"),
        ({"method": ["ersd"]}, "method = ['ersd'] is not one of ar, gsd, ersd"),
        ({"method": "../x", "topology": "context"}, "method = '../x' is not one of ar, gsd, ersd"),
        ({"topology": "x" * 10**6}, f"topology = '{'x' * 59} is not one of simple, sequence, batch"),
        ({"temperature": float("nan")}, "temperature = nan is not a number from 0 to 100"),
        ({"k": float("inf")}, "k = inf is not a whole number from 1 to 64"),
        ({"k": 2.5}, "k = 2.5 is not a whole number"),
        ({"k": None}, "k is empty"),
        ({"max_new_tokens": 0}, "length = 0 is not a whole number from 1 to 400"),
        ({"top_p": 3}, "top-p = 3 is not a number from 0 to 1"),
        ({"prompt": "the " * 600}, "the prompt has 602 tokens"),
        ({"prompt": "the " * 600, "topology": "optimal"}, "the prompt has 602 tokens"),
        ({"seed": 10**400}, f"seed = 1{'0' * 59} is not a whole number from 0 to 2⁶⁴ − 1"),
        ({"seed": 1e99}, "seed = 1e+99 is not a whole number from 0 to 2⁶⁴ − 1"),
        ({"seed": -1}, "seed = -1 is not a whole number from 0 up"),
        ({"top_k": True}, "top-k = True is not a whole number from 0"),
        ({"top_p": "0.5"}, "top-p = '0.5' is not a number from 0 to 1"),
        ({"prompt": " \n"}, "The prompt is empty"),
        ({"chat": True, "history": '["Hi"]'}, "history = '[\"Hi\"]' is not a list of questions and answers"),
        ({"chat": True, "history": "[1, 2]"}, "history = '[1, 2]' is not"),
        ({"chat": True, "history": "[" * 20_000}, f"history = '{'[' * 59} is not"),
        ({"chat": True, "history": ("Hi", "x" * 20_000)}, "The conversation is too long: 20,002 characters"),
    ],
)
def test_values_of_the_wrong_kind_are_told_and_cut_short(pair, changes, message):
    text = message_of(pair, changes)
    assert text.startswith(message)
    assert len(text) < 200


@pytest.mark.parametrize(
    ("changes", "unused"),
    [
        ({"method": "ar"}, ["topology", "k", "drafter", "baseline", "tree"]),
        ({"drafter": "copies"}, ["topology", "k", "tree"]),
        ({"topology": "simple"}, ["k"]),
        ({"chat": False}, ["history"]),
    ],
)
def test_a_setting_that_the_run_does_not_use_is_not_checked_and_has_its_default(changes, unused):
    wrong = dict.fromkeys(unused, -1)
    checked = VisitorSettings(**({"prompt": "Once", "chat": True} | changes | wrong)).checked()
    assert [getattr(checked, name) for name in unused] == [TABLE[name].setting.default for name in unused]
