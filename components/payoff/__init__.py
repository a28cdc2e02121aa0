"""The place "Will it pay?": two models are loaded and measured, and what drafting gains is computed."""
