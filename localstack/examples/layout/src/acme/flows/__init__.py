"""Flows, one per module."""
