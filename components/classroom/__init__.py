"""A class that answers together: a lecturer leads through a lesson, students answer on their own devices."""
