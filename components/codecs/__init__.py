"""The tab "Codecs": channel simulation and Tunstall codes."""
