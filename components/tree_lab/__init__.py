"""The tab "Tree lab": the optimal tree as it grows, beside others and the bounds."""
