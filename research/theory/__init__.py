"""Theory beyond the paper (docs/theory.md), in bits; `specdec.theory` has the theory of the paper."""
