"""The tab "Experiments": the paper's figures and findings, from results on file."""
