"""The command `specdec`: a prompt decoded in a terminal, and the way to the other commands.

command     options, errors and exit codes
decoding    the topology, and one run or one of each method, with what they measured
printing    tokens in colours or with marks, and numbers in columns
"""
