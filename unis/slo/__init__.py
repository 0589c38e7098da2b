"""Promises of throughput and latency: what a function needs for one, and where it is placed.

Pure: no machine is asked and none is changed.
"""
