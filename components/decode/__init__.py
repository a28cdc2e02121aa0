"""The tab "Decode": controls, models, the text, its rounds, the tree and the race; recorded runs."""
