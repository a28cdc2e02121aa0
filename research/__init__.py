"""What produced the models and results that this project ships: not part of the package `specdec`."""
