"""Flows, one a module."""
