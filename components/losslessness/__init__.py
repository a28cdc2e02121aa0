"""The tab "Losslessness": the decoder's texts against the exact law, and broken verifiers."""
