"""Visitors: the address by which the server tells them apart, and the limits of each one."""
