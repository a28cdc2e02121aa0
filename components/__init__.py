"""The page's panels, one file each; every panel runs alone: `python -m components.race`."""
