/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See offloads.h.
 */
#include "offloads.h"

#include <errno.h>
#include <rte_ethdev.h>
#include <stdlib.h>
#include <string.h>

#include "port_ops.h"

struct offloads {
  uint64_t rx;
  uint32_t longest; /* bytes of a frame; 0: as the driver has it */
};

static const struct {
  const char *name;
  struct offloads offloads;
} known[] = {
    {"rx-checksum",
     {.rx = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM |
            RTE_ETH_RX_OFFLOAD_TCP_CKSUM}},
    {"jumbo-frames", {.longest = RTE_ETHER_MAX_JUMBO_FRAME_LEN}},
};

static struct offloads asked;
static eth_dev_infos_get_t infos_get[RTE_MAX_ETHPORTS]; /* the driver's */

static int port_infos_get(struct rte_eth_dev *dev, struct rte_eth_dev_info *info) {
  int err = infos_get[dev->data->port_id](dev, info);

  if (err != 0) return err;
  info->rx_offload_capa |= asked.rx;
  info->max_rx_pktlen = RTE_MAX(info->max_rx_pktlen, asked.longest);
  return 0;
}

static int offload_add(const char *name, size_t length) {
  size_t i;

  for (i = 0; i < RTE_DIM(known); i++) {
    if (strlen(known[i].name) != length || strncmp(known[i].name, name, length) != 0) continue;
    asked.rx |= known[i].offloads.rx;
    asked.longest = RTE_MAX(asked.longest, known[i].offloads.longest);
    return 0;
  }
  return -EINVAL;
}

int offloads_read(void) {
  const char *name = getenv(UNIS_OFFLOADS_VARIABLE);
  size_t length;

  if (name == NULL || *name == 0) return 0;
  for (;; name += length + 1) {
    length = strcspn(name, ",");
    if (offload_add(name, length) != 0) return -EINVAL;
    if (name[length] == 0) return 0;
  }
}

void offloads_take_port(uint16_t port) {
  struct eth_dev_ops *ops = asked.rx == 0 && asked.longest == 0 ? NULL : port_ops(port);

  if (ops == NULL || ops->dev_infos_get == NULL || ops->dev_infos_get == port_infos_get) return;
  infos_get[port] = ops->dev_infos_get;
  ops->dev_infos_get = port_infos_get;
}
