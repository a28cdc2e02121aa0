"""What one client does to stop a server for everybody, and how long an honest visitor then waits.

    python -m tests.stress.attacks [NAME ...] [--smoke]

An attack is a function of the server's address and of the seconds it may take, `attack(url, seconds)`, plain
or `async`, which returns what the attacker got in some words or counts. Each module of this folder lists its
own in `ATTACKS`. All stays on this machine: attackers come from 127.0.0.1, honest visitors from 127.0.0.2 on.
"""
