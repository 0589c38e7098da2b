"""Descriptors of ETSI GS NFV-SOL 006: an NSD and VNFDs as a chain file, and back. Pure."""
