"""The checks that a request must pass before it reaches the app, and the limits of one visitor."""
