// The tool's idea of an mbuf, and DPDK's.
#include "models/recorder/mbuf_layout.h"

#include <rte_mbuf.h>

#include <cstddef>

static_assert(offsetof(rte_mbuf, buf_addr) == kMbufBufferAddressAt);
static_assert(offsetof(rte_mbuf, data_off) == kMbufDataOffsetAt);
static_assert(offsetof(rte_mbuf, data_len) == kMbufDataLengthAt);
static_assert(offsetof(rte_mbuf, buf_len) == kMbufBufferLengthAt);
static_assert(sizeof(rte_mbuf) == kMbufBytes);

int main() { return 0; }
