"""The tab "Decode": controls, models, text, rounds, tree and race, and recorded runs."""
