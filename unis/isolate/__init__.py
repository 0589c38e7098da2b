"""Cache isolation: classes of service on Linux' resctrl, and the ways that DMA uses.

The words are resctrl's and goresctrl's (docs/isolation.md). `plan` decides and is pure. `apply`
acts through a `Tree`: the kernel's, or an emulation that says it is one.
"""
