"""The laboratory "Race lab": two distributions that a visitor sets, and one race that both share."""
