"""The tab "Lessons": predict an answer, then see the page show it."""
