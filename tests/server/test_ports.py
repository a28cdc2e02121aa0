"""A port that is in use gives an error of one line."""

import ipaddress
import socket
import sys
from unittest.mock import Mock

import pytest

import app
from components.server import ports


@pytest.fixture
def busy_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def test_a_taken_port_ends_the_server_with_one_line(busy_port, monkeypatch):
    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)
    with pytest.raises(SystemExit) as error:
        app.main(["--port", str(busy_port)])
    # the message is printed, and the exit code is 1
    assert error.value.code.startswith(f"error: port = {busy_port}: Address already in use")
    assert error.value.code.endswith("choose another one with --port")


def test_what_is_no_port_and_an_address_of_another_machine_are_named():
    for port in (70_000, -1):
        with pytest.raises(ValueError, match=f"port = {port} is not a number from 0 to 65,535"):
            ports.check(None, port)
    with pytest.raises(ValueError, match=r"port = 80: .*; choose another one with --port"):
        ports.check("nowhere.invalid", 80)


def test_others_are_told_an_address_only_if_the_server_listens_for_them(monkeypatch):
    assert ports.for_others("127.0.0.1") is None
    assert ports.for_others(None) is None
    address = ports.for_others("0.0.0.0")
    assert address is None or ipaddress.ip_address(address)
    monkeypatch.setattr(ports.socket, "socket", Mock(side_effect=OSError("no network")))
    assert ports.for_others("0.0.0.0") is None
