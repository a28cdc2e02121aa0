"""Whose request it is: nobody may invent an address, and nobody has more than one."""

import random

import pytest

from components.guard import addresses
from components.guard.addresses import Proxies, address
from components.server import options


def scope(*forwarded, peer="203.0.113.9"):
    """A request from this peer; each of `forwarded` is one header X-Forwarded-For."""
    headers = [(b"host", b"page"), *((b"x-forwarded-for", value.encode("latin-1")) for value in forwarded)]
    return {"type": "http", "client": (peer, 5000), "headers": headers}


def random_address(random, last=254):
    return ".".join(str(random.randint(1, last)) for _ in range(4))


def test_without_proxies_nobody_is_believed():
    assert address(scope("198.51.100.1"), Proxies()) == "203.0.113.9"
    assert address(scope("198.51.100.1", peer="127.0.0.1"), Proxies()) == "127.0.0.1"


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("inner", [False, True])
def test_whatever_is_invented_the_address_stays_that_which_the_first_proxy_saw(count, inner):
    drawn = random.Random(count)
    for _ in range(200):
        invented = [
            drawn.choice([random_address(drawn), "10.0.0.1", "", "x", "::1", "1.2.3.4:9", "é"])
            for _ in range(drawn.randint(0, 6))
        ]
        appended = ["8.8.4.4", *(f"9.9.9.{number}" for number in range(1, count))]
        if inner:
            appended += drawn.choice([[], ["10.16.3.80"], ["10.16.3.80", "100.64.0.3"]])
        headers = [",".join(invented), ", ".join(appended)] if drawn.random() < 0.5 else [
            ", ".join([*invented, *appended])
        ]  # fmt: skip
        assert address(scope(*headers), Proxies(count, inner)) == "8.8.4.4", headers


def test_a_class_in_a_private_network_is_told_apart_behind_a_proxy_of_its_own():
    assert address(scope("192.168.1.5"), Proxies(1)) == "192.168.1.5"
    assert address(scope("8.8.8.8, 192.168.1.5"), Proxies(1)) == "192.168.1.5"


@pytest.mark.parametrize("entry", ["unknown", "", "1.2.3", "a" * 5000, "[::1", "1.2.3.4.5:80"])
def test_what_is_no_address_leaves_that_of_the_proxy(entry):
    assert address(scope(entry), Proxies(1)) == "203.0.113.9"


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        ("198.51.100.1", "198.51.100.1"),
        ("198.51.100.1:4711", "198.51.100.1"),
        ("::ffff:198.51.100.1", "198.51.100.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2:ffff::1]:4711", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2::", "2001:db8:1:2::/64"),
    ],
)
def test_one_visitor_has_one_address_however_it_is_written(entry, shown):
    assert address(scope(entry), Proxies(1)) == shown
    if ":" not in entry or entry.count(":") > 2:
        assert address(scope(peer=entry.partition("]")[0].removeprefix("["))) == shown


def test_a_socket_of_this_machine_has_none():
    assert address({"type": "http", "client": None, "headers": []}) == ""


@pytest.mark.parametrize("count", [-1, 10, True, 1.0, "1"])
def test_a_number_of_proxies_is_a_whole_number(count):
    with pytest.raises(ValueError, match=r"proxy = .* is not a number of proxies from 0 to 9"):
        Proxies(count)


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        ([], {}, Proxies(0)),
        (["--proxy", "2"], {}, Proxies(2)),
        ([], {"SPECDEC_PROXY": "1"}, Proxies(1)),
        ([], {"SPACE_ID": "someone/space"}, Proxies(1, inner=True)),
        (["--share"], {}, Proxies(1, inner=True)),
        (["--proxy", "0"], {"SPACE_ID": "someone/space"}, Proxies(0, inner=True)),
        (["--proxy", "2"], {"SPACE_ID": "someone/space"}, Proxies(2, inner=True)),
    ],
)
def test_proxies_are_stated_or_known_of_the_place(monkeypatch, arguments, environment, expected):
    for name in ("SPACE_ID", "SPECDEC_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert addresses.from_options(options.parse(arguments)) == expected


@pytest.mark.parametrize("stated", ["10.0.0.7", "*", "-1", "", "²", "11"])
def test_what_is_no_number_of_proxies_is_named(stated):
    with pytest.raises(ValueError, match="is not a number of proxies from 0 to 9"):
        addresses.from_options(options.parse(["--proxy=" + stated]))
