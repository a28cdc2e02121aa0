"""The server: the operator's options, which models may be loaded, where it listens, and how it ends.

options      settings of the server's operator
access       which models a visitor may load for everybody
loading      the load of another pair
memory       the allocator and the garbage collector
ports        the port, open connections, and the address for others
ending       the end of the process at a signal
standalone   the server of single panels
"""
