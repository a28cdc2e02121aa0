"""The lessons: a visitor reads a question and predicts the answer, then the page shows it."""
