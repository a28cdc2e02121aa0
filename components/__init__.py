"""The page: a folder for each feature. Shared code is in `page`, `runs`, `server`, `guard` and `visitors`.

Every panel runs alone: `python -m components.race_lab`.
"""
