"""Theory that goes beyond the paper (docs/theory.md), in bits. The paper's theory is in `specdec.theory`."""
