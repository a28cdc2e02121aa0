"""The address of a request: nobody can invent one, and nobody has several."""

import asyncio

import pytest
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from components.server import options
from components.visitors.addresses import address


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "")


def visitor_address(*forwarded, proxies="127.0.0.1"):
    """The address of a request from this machine, in an app of a uvicorn with these trusted proxies.

    forwarded: the values of the headers X-Forwarded-For."""
    addresses = []

    async def app(scope, receive, send):
        addresses.append(address(scope))

    headers = [(b"x-forwarded-for", value.encode("latin-1")) for value in forwarded]
    scope = {"type": "http", "client": ("127.0.0.1", 5000), "headers": headers}
    asyncio.run(ProxyHeadersMiddleware(app, proxies)(scope, None, None))
    return addresses[0]


def test_without_proxies_nobody_is_believed():
    assert visitor_address("198.51.100.1", proxies=options.proxies(options.parse([]), {})) == "127.0.0.1"


@pytest.mark.parametrize(
    "headers",
    [
        ["198.51.100.1, 8.8.4.4"],
        ["10.0.0.1,,x,é", "8.8.4.4"],
        ["::1, 198.51.100.1", "8.8.4.4, 10.16.3.80, 100.64.0.3"],
    ],
)
def test_whatever_is_invented_the_address_stays_that_which_the_first_proxy_saw(headers):
    assert visitor_address(*headers, proxies=options.PRIVATE) == "8.8.4.4"


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("198.51.100.1", "198.51.100.1"),
        ("198.51.100.1:4711", "198.51.100.1"),
        ("::ffff:198.51.100.1", "198.51.100.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2:ffff::1]:4711", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2::", "2001:db8:1:2::/64"),
    ],
)
def test_one_visitor_has_one_address_however_it_is_written(entry, expected):
    assert visitor_address(entry) == expected


@pytest.mark.parametrize(("client", "expected"), [(None, ""), (("unknown", 0), "unknown")])
def test_a_socket_of_this_machine_has_none_and_a_name_without_a_number_is_kept(client, expected):
    assert address({"type": "http", "client": client}) == expected


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        ([], {}, ""),
        (["--proxy", "127.0.0.1"], {}, "127.0.0.1"),
        (["--proxy", "127.0.0.1, 10.0.0.0/8,::1"], {}, "127.0.0.1,10.0.0.0/8,::1"),
        ([], {"SPECDEC_PROXY": "10.0.0.7"}, "10.0.0.7"),
        ([], {"SPACE_ID": "someone/space"}, options.PRIVATE),
        (["--share"], {}, options.PRIVATE),
        (["--proxy", "0"], {"SPACE_ID": "someone/space"}, ""),
    ],
)
def test_proxies_are_stated_or_known_of_the_place(arguments, environment, expected):
    assert options.proxies(options.parse(arguments, environment), environment) == expected


@pytest.mark.parametrize("stated", ["1", "*", "-1", "", "²", "10.0.0.1/8", "proxy.example.org", "127.0.0.1,"])
def test_what_is_no_address_of_a_proxy_is_named(stated):
    with pytest.raises(ValueError, match=r"is not an address or network, such as 127\.0\.0\.1"):
        options.proxies(options.parse(["--proxy=" + stated]))
