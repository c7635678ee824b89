"""Runs one task at a time in a warm interpreter, for the embedded server and on Lambda."""
