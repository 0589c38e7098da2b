/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which packet pools a program makes whose ports keep its buffers: those of net_virtio_user, which
 * have one for each packet in their queues, and one for each free slot.
 *
 * DPDK's own pool is a FIFO. A burst as long as a queue empties the lcore's cache of the pool, and
 * then each buffer is used after all others, when no CPU's cache holds it any more. DPDK's "stack"
 * gives the buffer that was used last. A program that names its pool's operations
 * (--mbuf-pool-ops-name, rte_pktmbuf_pool_create_by_ops) has those. As with the FIFO, a thread that
 * loses its CPU amid a call makes other threads of its program wait for it.
 */
#ifndef UNIS_POOLS_H
#define UNIS_POOLS_H

#include <stdint.h>

/* A port is there. Pools that the program makes from now on may be others. */
void pools_take_port(uint16_t port);

#endif
