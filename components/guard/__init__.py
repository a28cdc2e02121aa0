"""The checks that a request must pass before it reaches the app."""
