"""The command `specdec`: it decodes a prompt in a terminal, and starts the other commands.

command     options, errors and exit codes
decoding    the topology, the runs, and the numbers that they measured
printing    tokens in colours or with marks
"""
