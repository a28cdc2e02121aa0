"""In the tab "Experiments": channel simulation and Tunstall codes."""
