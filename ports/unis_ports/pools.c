/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See pools.h.
 */
#include "pools.h"

#include <ethdev_driver.h>
#include <rte_eal.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_mempool.h>
#include <string.h>

#define KEEPS_BUFFERS "net_virtio_user" /* as names of its ports begin */
#define LIFO "stack"

/* A program may have a DPDK without it. */
static int has_lifo(void) {
  for (uint32_t i = 0; i < rte_mempool_ops_table.num_ops; i++)
    if (strcmp(rte_mempool_ops_table.ops[i].name, LIFO) == 0) return 1;
  return 0;
}

void pools_take_port(uint16_t port) {
  const char *name = rte_eth_devices[port].data->name;

  if (strncmp(name, KEEPS_BUFFERS, strlen(KEEPS_BUFFERS)) != 0) return;
  /* The choice is one of all processes that share the memory. */
  if (rte_eal_process_type() != RTE_PROC_PRIMARY || !has_lifo()) return;
  if (rte_mbuf_platform_mempool_ops() != NULL) return; /* hardware has a pool of its own */
  (void)rte_mbuf_set_platform_mempool_ops(LIFO);
}
