"""Visitors of the page: the addresses by which the server distinguishes them, and the limits that apply to
each."""
