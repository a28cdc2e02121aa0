"""The view "Losslessness": compares the decoder's texts with the exact distribution, and shows broken
verifiers."""
