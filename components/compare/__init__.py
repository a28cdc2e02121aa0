"""The view "Compare": several methods side by side, from one prompt and one seed."""
