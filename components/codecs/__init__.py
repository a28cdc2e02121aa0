"""The laboratory "Codecs": channel simulation, which sends random samples in few bits, and Tunstall codes."""
