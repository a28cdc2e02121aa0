"""Visitors: the address by which the server tells them apart, and how much each may ask for."""
