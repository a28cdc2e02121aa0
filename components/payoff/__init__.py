"""The place "Will it pay?": two models are loaded and measured, and the gain of drafting is computed."""
