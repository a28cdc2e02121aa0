"""The watermark of the exponential race: scores a text with its own seed and with another one."""
