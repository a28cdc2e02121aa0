"""The commands that produced the models and results of this project; not part of the package `specdec`."""
