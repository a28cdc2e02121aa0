"""The laboratory "Tree lab": the optimal tree while it grows, other trees, and upper bounds for all trees."""
