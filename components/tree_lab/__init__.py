"""The tab "Tree lab": the optimal tree while it grows, other trees, and the bounds."""
