"""The page: a folder for each feature. Shared code is in `page`, `server` and `guard`.

Every panel runs alone: `python -m components.race_lab`.
"""
