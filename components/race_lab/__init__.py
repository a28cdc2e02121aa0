"""The tab "Race lab": two distributions by hand and one shared race."""
