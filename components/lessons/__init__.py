"""The tab "Lessons": a visitor predicts an answer, then the page shows it."""
