"""A class answers together: a lecturer goes through a lesson, and students answer on their own devices."""
