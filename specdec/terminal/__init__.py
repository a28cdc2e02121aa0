"""The command `specdec`: it decodes a prompt in a terminal, and starts the other commands.

command     options, errors and exit codes
decoding    the draft tree, the runs, and the numbers that they measured
printing    the text of a run, in colours or with marks
"""
