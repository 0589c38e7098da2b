"""Cache isolation: classes of service on Linux' resctrl, the ways that DMA uses, packet buffers.

The words are resctrl's and goresctrl's (docs/isolation.md). What decides is pure: `plan`,
`layout`, `order`, `dma`. What acts does it through a `Tree`: the kernel's, or an emulation that
says it is one.
"""
