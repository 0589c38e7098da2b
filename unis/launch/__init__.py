"""Starts, watches and takes down what a chain file describes."""
