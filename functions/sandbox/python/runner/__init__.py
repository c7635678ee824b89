"""Runs one task at a time in a warm interpreter, on a laptop and on Lambda alike."""
