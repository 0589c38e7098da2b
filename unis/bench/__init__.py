"""Measurements that compare policies on this machine."""
