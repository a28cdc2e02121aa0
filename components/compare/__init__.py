"""The tab "Compare": three methods side by side, from one prompt and one seed."""
