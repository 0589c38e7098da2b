/* SPDX-License-Identifier: BSD-3-Clause
 *
 * net_mmsg: an ethdev port on a network device of the kernel, by packet sockets. A burst is one
 * system call, recvmmsg() or sendmmsg(), of up to `batch` frames:
 *
 *   PROGRAM -d librte_net_mmsg.so --vdev net_mmsg0,iface=eth1 -- ...
 *
 * - iface=NAME: the device; it must be there.
 * - batch=N: frames a system call at most, 1 to 256 (32). A receive burst is one such call, a send
 *   burst one for each `batch` of its packets.
 * - qpairs=N: queues each way, 1 to 16 (1). The kernel chooses one by a frame's flow.
 * - rcvbuf=BYTES, sndbuf=BYTES: as SO_RCVBUF and SO_SNDBUF of each socket (the kernel's default).
 * - calls=vector|single: with `single` each frame is a recv() or send() of its own. Frames with a
 *   VLAN tag then count as errors, because recv() does not tell the tag.
 * - wait=0|1: with 1 a receive burst that finds nothing waits up to 10 ms.
 *
 * A port that starts makes its sockets, and closes them when it stops. When the device goes down or
 * away, the link is down; nothing is sent, and the packets stay the program's. A device that goes
 * away and comes back is another one: the program must open its port again.
 *
 * What a full socket dropped is counted (imissed) without PACKET_STATISTICS, which counts from 0
 * after each reading: that is left to whoever looks at the socket from outside.
 */
#include <errno.h>
#include <ethdev_driver.h>
#include <ethdev_vdev.h>
#include <net/if.h>
#include <rte_ethdev.h>
#include <rte_kvargs.h>
#include <rte_log.h>
#include <rte_spinlock.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "queues.h"

#define ARG_IFACE "iface"
#define ARG_BATCH "batch"
#define ARG_QPAIRS "qpairs"
#define ARG_RCVBUF "rcvbuf"
#define ARG_SNDBUF "sndbuf"
#define ARG_CALLS "calls"
#define ARG_WAIT "wait"

#define TAG_BYTES 4
#define MOST_MTU (UINT16_MAX - RTE_ETHER_HDR_LEN - TAG_BYTES)

RTE_LOG_REGISTER_DEFAULT(net_mmsg_logtype, NOTICE);
#define PORT_LOG(level, ...) rte_log(RTE_LOG_##level, net_mmsg_logtype, "net_mmsg: " __VA_ARGS__)

struct port_args {
  const char *iface;
  unsigned int batch;
  unsigned int qpairs;
  unsigned int rcvbuf;
  unsigned int sndbuf;
  bool single;
  bool waits;
};

struct port {
  struct port_args args; /* without iface */
  struct device device;
  uint16_t port_id;
  struct rte_ether_addr mac;
  uint16_t count; /* of sockets */
  int sockets[DEVICE_MOST_SOCKETS];
  rte_spinlock_t counting;            /* for what is below */
  uint32_t seen[DEVICE_MOST_SOCKETS]; /* drops of each socket when last looked */
  uint64_t missed;                    /* since the port was made */
  struct rte_eth_stats before;        /* at the last reset */
  struct rte_eth_stats gone;          /* of queues that were released */
};

/* ------------------------------------------------------------------ sockets */

static void drops_look(struct port *port) {
  uint16_t i;

  for (i = 0; i < port->count; i++) {
    const uint32_t drops = socket_drops(port->sockets[i]);

    port->missed += drops - port->seen[i];
    port->seen[i] = drops;
  }
}

static void sockets_close(struct port *port) {
  uint16_t i;

  rte_spinlock_lock(&port->counting);
  drops_look(port);
  for (i = 0; i < port->count; i++) close(port->sockets[i]);
  port->count = 0;
  rte_spinlock_unlock(&port->counting);
}

static int sockets_open(struct port *port, uint16_t receive, uint16_t send) {
  struct device_socket_options options = {
      .receive_bytes = (int)port->args.rcvbuf,
      .send_bytes = (int)port->args.sndbuf,
      .waits = port->args.waits,
      .tagged = !port->args.single,
      .many = receive > 1,
  };
  int group = -1;
  int err = 0;
  uint16_t i;

  for (i = 0; i < RTE_MAX(receive, send); i++) {
    options.receives = i < receive;
    err = device_socket(&port->device, &options, &group);
    if (err < 0) break;
    rte_spinlock_lock(&port->counting);
    port->sockets[port->count] = err;
    port->seen[port->count++] = 0;
    rte_spinlock_unlock(&port->counting);
  }
  if (err >= 0) return 0;
  sockets_close(port);
  PORT_LOG(ERR, "cannot make a packet socket on %s: %s\n", port->device.name, strerror(-err));
  return err;
}

/* ------------------------------------------------------------------ a port's life */

static void link_look(struct rte_eth_dev *dev) {
  const struct port *port = dev->data->dev_private;
  struct rte_eth_link link;

  rte_eth_linkstatus_get(dev, &link);
  link.link_status =
      port->count > 0 && device_running(&port->device) ? RTE_ETH_LINK_UP : RTE_ETH_LINK_DOWN;
  rte_eth_linkstatus_set(dev, &link);
}

static int port_link_update(struct rte_eth_dev *dev, int wait __rte_unused) {
  link_look(dev);
  return 0;
}

/* The device has its MTU from whoever made it, and keeps it until the program sets another. */
static int mtu_look(struct rte_eth_dev *dev) {
  const struct port *port = dev->data->dev_private;
  uint16_t mtu, i;
  const int err = device_mtu(&port->device, &mtu);

  if (err != 0) return err;
  dev->data->mtu = RTE_MIN(mtu, MOST_MTU);
  for (i = 0; i < dev->data->nb_tx_queues; i++)
    if (dev->data->tx_queues[i] != NULL) tx_queue_set_mtu(dev->data->tx_queues[i], mtu);
  return 0;
}

static bool strips(const struct rte_eth_dev *dev) {
  return (dev->data->dev_conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_VLAN_STRIP) != 0;
}

static int port_configure(struct rte_eth_dev *dev) { return mtu_look(dev); }

static int port_start(struct rte_eth_dev *dev) {
  struct port *port = dev->data->dev_private;
  int err = mtu_look(dev);
  uint16_t i;

  if (err == 0) err = sockets_open(port, dev->data->nb_rx_queues, dev->data->nb_tx_queues);
  if (err != 0) return err;
  for (i = 0; i < dev->data->nb_rx_queues; i++)
    rx_queue_use(dev->data->rx_queues[i], port->sockets[i]);
  for (i = 0; i < dev->data->nb_tx_queues; i++)
    tx_queue_use(dev->data->tx_queues[i], port->sockets[i]);
  link_look(dev);
  return 0;
}

static int port_stop(struct rte_eth_dev *dev) {
  uint16_t i;

  /* Whoever still polls must not read what gets the number of a closed socket. */
  for (i = 0; i < dev->data->nb_rx_queues; i++) rx_queue_use(dev->data->rx_queues[i], -1);
  for (i = 0; i < dev->data->nb_tx_queues; i++) tx_queue_use(dev->data->tx_queues[i], -1);
  sockets_close(dev->data->dev_private);
  link_look(dev);
  return 0;
}

static void add_rx(struct rte_eth_stats *stats, uint16_t number, const struct rx_queue *queue) {
  const struct queue_counters of = rx_queue_counters(queue);

  stats->ipackets += of.packets;
  stats->ibytes += of.bytes;
  stats->ierrors += of.errors;
  stats->rx_nombuf += of.no_buffer;
  stats->q_ipackets[number] += of.packets;
  stats->q_ibytes[number] += of.bytes;
}

static void add_tx(struct rte_eth_stats *stats, uint16_t number, const struct tx_queue *queue) {
  const struct queue_counters of = tx_queue_counters(queue);

  stats->opackets += of.packets;
  stats->obytes += of.bytes;
  stats->oerrors += of.errors;
  stats->q_opackets[number] += of.packets;
  stats->q_obytes[number] += of.bytes;
}

static void port_rx_queue_release(struct rte_eth_dev *dev, uint16_t number) {
  struct port *port = dev->data->dev_private;
  struct rx_queue *queue = dev->data->rx_queues[number];

  if (queue == NULL) return;
  add_rx(&port->gone, number, queue);
  rx_queue_free(queue);
  dev->data->rx_queues[number] = NULL;
}

static void port_tx_queue_release(struct rte_eth_dev *dev, uint16_t number) {
  struct port *port = dev->data->dev_private;
  struct tx_queue *queue = dev->data->tx_queues[number];

  if (queue == NULL) return;
  add_tx(&port->gone, number, queue);
  tx_queue_free(queue);
  dev->data->tx_queues[number] = NULL;
}

static int port_close(struct rte_eth_dev *dev) {
  struct port *port = dev->data->dev_private;
  uint16_t i;

  if (rte_eal_process_type() != RTE_PROC_PRIMARY) return 0;
  sockets_close(port);
  device_close(&port->device);
  for (i = 0; i < dev->data->nb_rx_queues; i++) port_rx_queue_release(dev, i);
  for (i = 0; i < dev->data->nb_tx_queues; i++) port_tx_queue_release(dev, i);
  dev->data->mac_addrs = NULL; /* part of dev_private */
  return 0;
}

static int port_info(struct rte_eth_dev *dev, struct rte_eth_dev_info *info) {
  const struct port *port = dev->data->dev_private;

  info->if_index = (unsigned int)port->device.index;
  info->max_mac_addrs = 1;
  info->max_rx_pktlen = UINT16_MAX;
  info->min_mtu = RTE_ETHER_MIN_MTU;
  info->max_mtu = MOST_MTU;
  info->max_rx_queues = info->max_tx_queues = (uint16_t)port->args.qpairs;
  info->min_rx_bufsize = 0;
  info->rx_offload_capa = RTE_ETH_RX_OFFLOAD_VLAN_STRIP;
  info->tx_offload_capa = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  info->default_rxportconf.burst_size = info->default_txportconf.burst_size =
      (uint16_t)port->args.batch;
  return 0;
}

static struct queue_options queue_options(const struct rte_eth_dev *dev) {
  const struct port *port = dev->data->dev_private;

  return (struct queue_options){
      .port = port->port_id,
      .batch = (uint16_t)port->args.batch,
      .single = port->args.single,
      .waits = port->args.waits,
      .strips = strips(dev),
  };
}

static int frames_fit(struct rte_mempool *pool, const struct port *port, uint16_t mtu) {
  const int room = rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM;

  if (room >= mtu + RTE_ETHER_HDR_LEN) return 0;
  PORT_LOG(ERR,
           "frames of %s (MTU %u) do not fit into packet buffers of %d bytes; make the MTU "
           "smaller or the buffers larger\n",
           port->device.name, mtu, room);
  return -EINVAL;
}

static int port_rx_queue_setup(struct rte_eth_dev *dev, uint16_t queue,
                               uint16_t nb_desc __rte_unused, unsigned int node,
                               const struct rte_eth_rxconf *conf __rte_unused,
                               struct rte_mempool *pool) {
  const struct queue_options options = queue_options(dev);
  const int err = frames_fit(pool, dev->data->dev_private, dev->data->mtu);

  if (err != 0) return err;
  dev->data->rx_queues[queue] = rx_queue_create(&options, pool, node);
  return dev->data->rx_queues[queue] == NULL ? -ENOMEM : 0;
}

static int port_tx_queue_setup(struct rte_eth_dev *dev, uint16_t queue,
                               uint16_t nb_desc __rte_unused, unsigned int node,
                               const struct rte_eth_txconf *conf __rte_unused) {
  const struct queue_options options = queue_options(dev);

  dev->data->tx_queues[queue] = tx_queue_create(&options, node);
  if (dev->data->tx_queues[queue] == NULL) return -ENOMEM;
  tx_queue_set_mtu(dev->data->tx_queues[queue], dev->data->mtu);
  return 0;
}

/* ------------------------------------------------------------------ counters */

static void stats_of_queues(const struct rte_eth_dev *dev, struct rte_eth_stats *stats) {
  const struct port *port = dev->data->dev_private;
  uint16_t i;

  *stats = port->gone;
  for (i = 0; i < dev->data->nb_rx_queues; i++)
    if (dev->data->rx_queues[i] != NULL) add_rx(stats, i, dev->data->rx_queues[i]);
  for (i = 0; i < dev->data->nb_tx_queues; i++)
    if (dev->data->tx_queues[i] != NULL) add_tx(stats, i, dev->data->tx_queues[i]);
}

/* All counters are numbers of 64 bits. */
_Static_assert(sizeof(struct rte_eth_stats) % sizeof(uint64_t) == 0, "not only counters");

static int port_stats_get(struct rte_eth_dev *dev, struct rte_eth_stats *stats) {
  struct port *port = dev->data->dev_private;
  const uint64_t *before = (const uint64_t *)&port->before;
  uint64_t *now = (uint64_t *)stats;
  size_t i;

  stats_of_queues(dev, stats);
  rte_spinlock_lock(&port->counting);
  drops_look(port);
  stats->imissed = port->missed;
  for (i = 0; i < sizeof(*stats) / sizeof(*now); i++) now[i] -= before[i];
  rte_spinlock_unlock(&port->counting);
  return 0;
}

/* The thread that polls goes on counting where it was. */
static int port_stats_reset(struct rte_eth_dev *dev) {
  struct port *port = dev->data->dev_private;
  struct rte_eth_stats now;

  stats_of_queues(dev, &now);
  rte_spinlock_lock(&port->counting);
  drops_look(port);
  now.imissed = port->missed;
  port->before = now;
  rte_spinlock_unlock(&port->counting);
  return 0;
}

/* ------------------------------------------------------------------ settings */

static int port_mtu_set(struct rte_eth_dev *dev, uint16_t mtu) {
  const struct port *port = dev->data->dev_private;
  uint16_t i;
  int err;

  for (i = 0; i < dev->data->nb_rx_queues; i++) {
    if (dev->data->rx_queues[i] == NULL) continue;
    err = frames_fit(rx_queue_pool(dev->data->rx_queues[i]), port, mtu);
    if (err != 0) return err;
  }
  err = device_set_mtu(&port->device, mtu);
  return err != 0 ? err : mtu_look(dev);
}

/* ethdev sets the address again at each start, which is for root where it changes something. */
static int port_mac_set(struct rte_eth_dev *dev, struct rte_ether_addr *mac) {
  struct port *port = dev->data->dev_private;
  struct rte_ether_addr now;
  int err = device_mac(&port->device, &now);

  if (err == 0 && !rte_is_same_ether_addr(&now, mac)) err = device_set_mac(&port->device, mac);
  if (err == 0) rte_ether_addr_copy(mac, &port->mac);
  return err;
}

static int port_promiscuous_on(struct rte_eth_dev *dev) {
  struct port *port = dev->data->dev_private;

  return device_set_promiscuous(&port->device, true);
}

static int port_promiscuous_off(struct rte_eth_dev *dev) {
  struct port *port = dev->data->dev_private;

  return device_set_promiscuous(&port->device, false);
}

static int port_all_multicast_on(struct rte_eth_dev *dev) {
  struct port *port = dev->data->dev_private;

  return device_set_all_multicast(&port->device, true);
}

static int port_all_multicast_off(struct rte_eth_dev *dev) {
  struct port *port = dev->data->dev_private;

  return device_set_all_multicast(&port->device, false);
}

static int port_vlan_set(struct rte_eth_dev *dev, int mask) {
  uint16_t i;

  for (i = 0; (mask & RTE_ETH_VLAN_STRIP_MASK) != 0 && i < dev->data->nb_rx_queues; i++)
    if (dev->data->rx_queues[i] != NULL) rx_queue_set_strips(dev->data->rx_queues[i], strips(dev));
  return 0;
}

static const struct eth_dev_ops port_ops = {
    .dev_configure = port_configure,
    .dev_start = port_start,
    .dev_stop = port_stop,
    .dev_close = port_close,
    .dev_infos_get = port_info,
    .rx_queue_setup = port_rx_queue_setup,
    .tx_queue_setup = port_tx_queue_setup,
    .rx_queue_release = port_rx_queue_release,
    .tx_queue_release = port_tx_queue_release,
    .link_update = port_link_update,
    .stats_get = port_stats_get,
    .stats_reset = port_stats_reset,
    .promiscuous_enable = port_promiscuous_on,
    .promiscuous_disable = port_promiscuous_off,
    .allmulticast_enable = port_all_multicast_on,
    .allmulticast_disable = port_all_multicast_off,
    .mac_addr_set = port_mac_set,
    .mtu_set = port_mtu_set,
    .vlan_offload_set = port_vlan_set,
};

/* ------------------------------------------------------------------ arguments */

struct choice {
  const char *key;
  unsigned int least, most;
  unsigned int *to;
};

static int take_number(const char *key, const char *value, void *where) {
  const struct choice *choice = where;
  char *end = NULL;
  const unsigned long number = value == NULL ? 0 : strtoul(value, &end, 10);

  if (end != NULL && end != value && *end == '\0' && *value != '-' && *value != '+' &&
      number >= choice->least && number <= choice->most) {
    *choice->to = (unsigned int)number;
    return 0;
  }
  PORT_LOG(ERR, "%s=%s must be a number from %u to %u\n", key, value == NULL ? "" : value,
           choice->least, choice->most);
  return -EINVAL;
}

static int take_name(const char *key, const char *value, void *where) {
  if (value != NULL && *value != '\0' && strlen(value) < IFNAMSIZ) {
    *(const char **)where = value;
    return 0;
  }
  PORT_LOG(ERR, "%s=%s must be the name of a network device, of 1 to %d bytes\n", key,
           value == NULL ? "" : value, IFNAMSIZ - 1);
  return -EINVAL;
}

static int take_calls(const char *key, const char *value, void *where) {
  *(bool *)where = value != NULL && strcmp(value, "single") == 0;
  if (*(bool *)where || (value != NULL && strcmp(value, "vector") == 0)) return 0;
  PORT_LOG(ERR, "%s=%s must be vector or single\n", key, value == NULL ? "" : value);
  return -EINVAL;
}

static int port_args_read(const struct rte_kvargs *kvargs, struct port_args *args) {
  unsigned int waits = 0;
  struct choice numbers[] = {
      {ARG_BATCH, 1, QUEUE_MOST_BATCH, &args->batch},
      {ARG_QPAIRS, 1, DEVICE_MOST_SOCKETS, &args->qpairs},
      {ARG_RCVBUF, 1, INT32_MAX / 2, &args->rcvbuf},
      {ARG_SNDBUF, 1, INT32_MAX / 2, &args->sndbuf},
      {ARG_WAIT, 0, 1, &waits},
  };
  size_t i;

  *args = (struct port_args){.batch = 32, .qpairs = 1};
  for (i = 0; i < RTE_DIM(numbers); i++)
    if (rte_kvargs_process(kvargs, numbers[i].key, take_number, &numbers[i]) != 0) return -EINVAL;
  if (rte_kvargs_process(kvargs, ARG_IFACE, take_name, &args->iface) != 0 ||
      rte_kvargs_process(kvargs, ARG_CALLS, take_calls, &args->single) != 0)
    return -EINVAL;
  args->waits = waits != 0;
  if (args->iface != NULL) return 0;
  PORT_LOG(ERR, "the device needs iface=NAME, a network device of the kernel\n");
  return -EINVAL;
}

/* ------------------------------------------------------------------ the device */

static int port_connect(struct port *port, const struct port_args *args) {
  const int err = device_open(&port->device, args->iface);

  port->args = *args;
  port->args.iface = NULL;
  if (err == 0) return device_mac(&port->device, &port->mac);
  if (err == -ENODEV)
    PORT_LOG(ERR, "there is no network device %s in this network namespace; `ip link` lists them\n",
             args->iface);
  else if (err == -EPROTOTYPE)
    PORT_LOG(ERR, "%s is no Ethernet device; name one that `ip link` shows as link/ether\n",
             args->iface);
  else if (err == -EPERM)
    PORT_LOG(ERR, "cannot make a packet socket; give the program the capability net_raw\n");
  else
    PORT_LOG(ERR, "cannot use %s: %s\n", args->iface, strerror(-err));
  return err;
}

static int port_create(struct rte_vdev_device *vdev, const struct port_args *args) {
  struct rte_eth_dev *dev;
  struct port found = {0};
  struct port *port;
  const int err = port_connect(&found, args);

  if (err != 0) return err;
  dev = rte_eth_vdev_allocate(vdev, sizeof(*port));
  if (dev == NULL) {
    device_close(&found.device);
    return -ENOMEM;
  }
  port = dev->data->dev_private;
  *port = found;
  port->port_id = dev->data->port_id;
  rte_spinlock_init(&port->counting);
  dev->data->mac_addrs = &port->mac;
  dev->data->dev_flags |= RTE_ETH_DEV_AUTOFILL_QUEUE_XSTATS;
  dev->data->dev_link = (struct rte_eth_link){
      .link_speed = RTE_ETH_SPEED_NUM_10G,
      .link_duplex = RTE_ETH_LINK_FULL_DUPLEX,
      .link_autoneg = RTE_ETH_LINK_FIXED,
      .link_status = RTE_ETH_LINK_DOWN,
  };
  dev->dev_ops = &port_ops;
  dev->rx_pkt_burst = rx_burst;
  dev->tx_pkt_burst = tx_burst;
  rte_eth_dev_probing_finish(dev);
  return 0;
}

static int net_mmsg_probe(struct rte_vdev_device *vdev) {
  static const char *const keys[] = {ARG_IFACE,  ARG_BATCH, ARG_QPAIRS, ARG_RCVBUF,
                                     ARG_SNDBUF, ARG_CALLS, ARG_WAIT,   NULL};
  struct rte_kvargs *kvargs;
  struct port_args args;
  int err;

  if (rte_eal_process_type() != RTE_PROC_PRIMARY) {
    PORT_LOG(ERR, "a secondary process has no sockets of the primary's; open the port there\n");
    return -ENOTSUP;
  }
  kvargs = rte_kvargs_parse(rte_vdev_device_args(vdev), keys);
  if (kvargs == NULL) {
    PORT_LOG(ERR,
             "cannot read the device's arguments %s; there are iface=, batch=, qpairs=, "
             "rcvbuf=, sndbuf=, calls= and wait=\n",
             rte_vdev_device_args(vdev));
    return -EINVAL;
  }
  err = port_args_read(kvargs, &args);
  if (err == 0) err = port_create(vdev, &args);
  rte_kvargs_free(kvargs);
  return err;
}

static int net_mmsg_remove(struct rte_vdev_device *vdev) {
  struct rte_eth_dev *dev = rte_eth_dev_allocated(rte_vdev_device_name(vdev));

  if (dev == NULL) return 0;
  port_close(dev);
  return rte_eth_dev_release_port(dev);
}

static struct rte_vdev_driver net_mmsg_driver = {
    .probe = net_mmsg_probe,
    .remove = net_mmsg_remove,
};

RTE_PMD_REGISTER_VDEV(net_mmsg, net_mmsg_driver);
RTE_PMD_REGISTER_PARAM_STRING(net_mmsg,
                              ARG_IFACE "=<string> " ARG_BATCH "=<int> " ARG_QPAIRS
                                        "=<int> " ARG_RCVBUF "=<int> " ARG_SNDBUF
                                        "=<int> " ARG_CALLS "=<vector|single> " ARG_WAIT "=<0|1>");
