"""The page: a folder for each feature, and what they share in `page`, `server` and `guard`.

Every panel runs alone: `python -m components.race_lab`.
"""
