/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See port_ops.h.
 */
#include "port_ops.h"

#include <rte_ethdev.h>

static struct eth_dev_ops copies[RTE_MAX_ETHPORTS];

struct eth_dev_ops *port_ops(uint16_t port) {
  struct rte_eth_dev *dev = &rte_eth_devices[port];

  if (dev->dev_ops == NULL) return NULL;
  /* Another device may have had the number before. */
  if (dev->dev_ops != &copies[port]) {
    copies[port] = *dev->dev_ops;
    dev->dev_ops = &copies[port];
  }
  return &copies[port];
}
