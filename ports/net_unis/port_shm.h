/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the engine and the net_unis port share: what a port tells of itself, in a memzone of the
 * DPDK multi-process group that the engine creates, zeroed, before the NF starts; and a heartbeat.
 *
 * Each field has one writer, the NF's polling thread, and is stored and loaded whole (8 bytes,
 * aligned), in this order in every call: read with __atomic_load_n(…, __ATOMIC_ACQUIRE), a field is
 * never older than those that were read before it but are written after it.
 */
#ifndef UNIS_PORT_SHM_H
#define UNIS_PORT_SHM_H

#include <stdint.h>

/* The engine's packet memory of a group is a mempool of this name, with the NUMA node behind it: as
 * testpmd names its own, which a secondary one looks for. */
#define UNIS_PACKET_MEMORY "mb_pool_"

/* That the scheduler goes on: a memzone of this name, into which its loop alone writes. When the
 * number has stood still for a tenth of a second the engine is dead, or stands still; ports then
 * say that their link is down, as programs ask any port. 0: it has not begun. */
#define UNIS_HEARTBEAT "unis_heartbeat"

struct unis_heartbeat {
  uint64_t beats;
};

struct unis_port_shm {
  uint64_t polls;      /* calls of rx_burst, with or without packets */
  uint64_t rx_packets; /* handed to the NF */
  uint64_t tx_packets; /* taken from the NF and put into the egress */
  uint64_t tx_refused;   /* offered by the NF when the egress was full */
  int32_t polling_tid;   /* thread that polls; 0: none has polled yet */
  int32_t polling_lcore; /* EAL's number of that thread and 1 more; 0: unknown */
};

#endif
