/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See modes.h.
 */
#include "modes.h"

#include <errno.h>

#include "port_ops.h"

static struct {
  eth_promiscuous_enable_t enable; /* the driver's */
  eth_promiscuous_disable_t disable;
} drivers[RTE_MAX_ETHPORTS];

static int allowed(int err) { return err == -EPERM ? -ENOTSUP : err; }

static int port_enable(struct rte_eth_dev *dev) {
  return allowed(drivers[dev->data->port_id].enable(dev));
}

static int port_disable(struct rte_eth_dev *dev) {
  return allowed(drivers[dev->data->port_id].disable(dev));
}

void modes_take_port(uint16_t port) {
  struct eth_dev_ops *ops = port_ops(port);

  if (ops == NULL || ops->promiscuous_enable == port_enable) return;
  if (ops->promiscuous_enable == NULL || ops->promiscuous_disable == NULL) return;
  drivers[port].enable = ops->promiscuous_enable;
  drivers[port].disable = ops->promiscuous_disable;
  ops->promiscuous_enable = port_enable;
  ops->promiscuous_disable = port_disable;
}
