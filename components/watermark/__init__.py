"""The watermark of the race, in the tab "Losslessness": a text scored with its seed and with another."""
