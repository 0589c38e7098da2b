/* SPDX-License-Identifier: BSD-3-Clause
 *
 * net_unis: an ethdev port between two rte_rings of a DPDK multi-process group, so that an
 * unmodified program joins a chain without a copy:
 *
 *   PROGRAM -d librte_net_unis.so --proc-type=secondary --file-prefix=GROUP \
 *           --vdev net_unis0,rx=RING,tx=RING,shm=MEMZONE -- ...
 *
 * One queue a direction; both rings single producer, single consumer. Without rx= nothing is ever
 * received, without tx= no packet is taken; one of them is needed. Device names must differ among
 * the processes of a group.
 *
 * In a secondary process the port is ready from the start, with its queues and its link up: some
 * programs, as testpmd, leave configuring to the primary. Those that do it themselves still can.
 */
#include <errno.h>
#include <ethdev_driver.h>
#include <ethdev_vdev.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_hash_crc.h>
#include <rte_kvargs.h>
#include <rte_log.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_memzone.h>
#include <rte_ring.h>
#include <string.h>

#include "port_shm.h"

#define ARG_RX "rx"
#define ARG_TX "tx"
#define ARG_SHM "shm"

RTE_LOG_REGISTER_DEFAULT(net_unis_logtype, NOTICE);
#define PORT_LOG(level, ...) rte_log(RTE_LOG_##level, net_unis_logtype, "net_unis: " __VA_ARGS__)

#define LOOK_EVERY 0x10000 /* polls; a power of two */

struct port {
  struct rte_ring *rx; /* or NULL */
  struct rte_ring *tx; /* or NULL */
  struct unis_port_shm *shm;
  const struct unis_heartbeat *engine; /* or NULL: it has none */
  uint64_t beats;                      /* when last looked */
  uint64_t beaten;                     /* timer cycles; when they last had grown */
  uint16_t port_id;
  struct rte_ether_addr mac;
};

static inline void counter_add(uint64_t *counter, uint64_t n) {
  __atomic_store_n(counter, *counter + n, __ATOMIC_RELEASE);
}

/* Whoever was not let run for long looks at a number that has grown. */
static void engine_look(struct port *port) {
  struct rte_eth_dev_data *data = rte_eth_devices[port->port_id].data;
  uint64_t beats = __atomic_load_n(&port->engine->beats, __ATOMIC_RELAXED);
  uint64_t now = rte_get_timer_cycles();

  if (beats == 0) return; /* nothing is scheduled yet */
  if (beats != port->beats) {
    port->beats = beats;
    port->beaten = now;
    data->dev_link.link_status = RTE_ETH_LINK_UP;
  } else if (now - port->beaten > rte_get_timer_hz() / 10) {
    data->dev_link.link_status = RTE_ETH_LINK_DOWN;
  }
}

/* The NF finds the packets cold, in the cache of another core or in this one's second: it knows
 * what of them it will read, and mostly fetches that ahead itself. Nothing is fetched here, nor are
 * bytes counted, as in DPDK's own ring driver: each was a wait for a line of each packet, and
 * together 4 to 9 % of what light functions pass. A store waits for none. */
static uint16_t port_rx(void *queue, struct rte_mbuf **bufs, uint16_t nb_bufs) {
  struct port *port = queue;
  unsigned int n, i;

  if (unlikely(port->shm->polling_tid == 0)) {
    port->shm->polling_lcore = (int32_t)(rte_lcore_id() + 1);
    __atomic_store_n(&port->shm->polling_tid, rte_sys_gettid(), __ATOMIC_RELEASE);
  }
  n = port->rx == NULL ? 0 : rte_ring_sc_dequeue_burst(port->rx, (void **)bufs, nb_bufs, NULL);
  counter_add(&port->shm->polls, 1);
  if (unlikely(port->shm->polls % LOOK_EVERY == 0) && port->engine != NULL) engine_look(port);
  if (n == 0) return 0;
  for (i = 0; i < n; i++) bufs[i]->port = port->port_id;
  counter_add(&port->shm->rx_packets, n);
  return n;
}

static uint16_t port_tx(void *queue, struct rte_mbuf **bufs, uint16_t nb_bufs) {
  struct port *port = queue;
  unsigned int n;

  n = port->tx == NULL ? 0 : rte_ring_sp_enqueue_burst(port->tx, (void **)bufs, nb_bufs, NULL);
  counter_add(&port->shm->tx_packets, n);
  if (n < nb_bufs) counter_add(&port->shm->tx_refused, nb_bufs - n);
  return n;
}

static int port_configure(struct rte_eth_dev *dev __rte_unused) { return 0; }

static int port_start(struct rte_eth_dev *dev) {
  dev->data->dev_link.link_status = RTE_ETH_LINK_UP;
  return 0;
}

static int port_stop(struct rte_eth_dev *dev) {
  dev->data->dev_link.link_status = RTE_ETH_LINK_DOWN;
  return 0;
}

/* The port owns nothing that its process does not take along: rings and memzone are the engine's.
 */
static int port_close(struct rte_eth_dev *dev) {
  dev->data->mac_addrs = NULL; /* part of dev_private */
  return 0;
}

static int port_info(struct rte_eth_dev *dev __rte_unused, struct rte_eth_dev_info *info) {
  info->max_mac_addrs = 1;
  info->max_rx_pktlen = UINT32_MAX;
  info->max_rx_queues = 1;
  info->max_tx_queues = 1;
  info->min_rx_bufsize = 0;
  return 0;
}

static int port_rx_queue_setup(struct rte_eth_dev *dev, uint16_t queue,
                               uint16_t nb_desc __rte_unused, unsigned int socket __rte_unused,
                               const struct rte_eth_rxconf *conf __rte_unused,
                               struct rte_mempool *pool __rte_unused) {
  dev->data->rx_queues[queue] = dev->data->dev_private;
  return 0;
}

static int port_tx_queue_setup(struct rte_eth_dev *dev, uint16_t queue,
                               uint16_t nb_desc __rte_unused, unsigned int socket __rte_unused,
                               const struct rte_eth_txconf *conf __rte_unused) {
  dev->data->tx_queues[queue] = dev->data->dev_private;
  return 0;
}

static int port_link_update(struct rte_eth_dev *dev __rte_unused, int wait __rte_unused) {
  return 0;
}

static int port_stats_get(struct rte_eth_dev *dev, struct rte_eth_stats *stats) {
  const struct port *port = dev->data->dev_private;

  stats->ipackets = port->shm->rx_packets;
  stats->opackets = port->shm->tx_packets;
  stats->oerrors = port->shm->tx_refused;
  return 0;
}

static int port_accept(struct rte_eth_dev *dev __rte_unused) {
  return 0; /* a ring passes every packet: promiscuous and all-multicast are always on */
}

static int port_mac_set(struct rte_eth_dev *dev, struct rte_ether_addr *mac) {
  struct port *port = dev->data->dev_private;

  rte_ether_addr_copy(mac, &port->mac);
  return 0;
}

static int port_mtu_set(struct rte_eth_dev *dev __rte_unused, uint16_t mtu __rte_unused) {
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
    .link_update = port_link_update,
    .stats_get = port_stats_get,
    .promiscuous_enable = port_accept,
    .promiscuous_disable = port_accept,
    .allmulticast_enable = port_accept,
    .allmulticast_disable = port_accept,
    .mac_addr_set = port_mac_set,
    .mtu_set = port_mtu_set,
};

struct port_args {
  const char *rx;
  const char *tx;
  const char *shm;
};

static int take_string(const char *key __rte_unused, const char *value, void *where) {
  *(const char **)where = value;
  return 0;
}

static int port_args_read(const struct rte_kvargs *kvargs, struct port_args *args) {
  memset(args, 0, sizeof(*args));
  rte_kvargs_process(kvargs, ARG_RX, take_string, &args->rx);
  rte_kvargs_process(kvargs, ARG_TX, take_string, &args->tx);
  rte_kvargs_process(kvargs, ARG_SHM, take_string, &args->shm);
  if ((args->rx != NULL || args->tx != NULL) && args->shm != NULL) return 0;
  PORT_LOG(ERR, "the device needs shm=MEMZONE, and rx=RING or tx=RING or both\n");
  return -EINVAL;
}

static int ring_find(const char *name, struct rte_ring **ring) {
  if (name == NULL) return 0;
  *ring = rte_ring_lookup(name);
  if (*ring != NULL) return 0;
  PORT_LOG(ERR, "no ring %s in this DPDK group; is the file prefix the engine's?\n", name);
  return -ENOENT;
}

static int port_connect(struct port *port, const struct port_args *args) {
  const struct rte_memzone *zone = rte_memzone_lookup(args->shm);
  const struct rte_memzone *heartbeat = rte_memzone_lookup(UNIS_HEARTBEAT);
  int err;

  err = ring_find(args->rx, &port->rx);
  if (err == 0) err = ring_find(args->tx, &port->tx);
  if (err != 0) return err;
  if (zone == NULL || zone->len < sizeof(struct unis_port_shm)) {
    PORT_LOG(ERR, "no memzone %s in this DPDK group\n", args->shm);
    return -ENOENT;
  }
  port->shm = zone->addr;
  port->engine = heartbeat == NULL ? NULL : heartbeat->addr;
  port->beaten = rte_get_timer_cycles();
  return 0;
}

/* Before probing ends, for it is then that ethdev tells a secondary's burst calls of the queues.
 * The arrays have the size that ethdev gives them: configuring keeps those that are there. */
static int port_make_ready(struct rte_eth_dev *dev) {
  const size_t size = sizeof(void *) * RTE_MAX_QUEUES_PER_PORT;

  dev->data->rx_queues = rte_zmalloc("net_unis rx queues", size, RTE_CACHE_LINE_SIZE);
  dev->data->tx_queues = rte_zmalloc("net_unis tx queues", size, RTE_CACHE_LINE_SIZE);
  if (dev->data->rx_queues == NULL || dev->data->tx_queues == NULL) {
    rte_free(dev->data->rx_queues);
    rte_free(dev->data->tx_queues);
    dev->data->rx_queues = dev->data->tx_queues = NULL;
    return -ENOMEM;
  }
  dev->data->rx_queues[0] = dev->data->tx_queues[0] = dev->data->dev_private;
  dev->data->nb_rx_queues = dev->data->nb_tx_queues = 1;
  dev->data->dev_link.link_status = RTE_ETH_LINK_UP;
  return 0;
}

/* In a secondary ethdev frees nothing, the shared slot would stay taken as it is, and the group has
 * few.
 */
static void port_release(struct rte_eth_dev *dev) {
  struct rte_eth_dev_data *data = dev->data;

  data->mac_addrs = NULL; /* part of dev_private */
  rte_eth_dev_release_port(dev);
  if (rte_eal_process_type() == RTE_PROC_PRIMARY) return;
  rte_free(data->rx_queues);
  rte_free(data->tx_queues);
  rte_free(data->dev_private);
  memset(data, 0, sizeof(*data));
}

static int port_create(struct rte_vdev_device *vdev, const struct port_args *args) {
  struct rte_eth_dev *dev;
  struct port found = {0};
  struct port *port;
  uint32_t hash;
  int err;

  err = port_connect(&found, args);
  if (err != 0) return err;
  dev = rte_eth_vdev_allocate(vdev, sizeof(*port));
  if (dev == NULL) return -ENOMEM;
  port = dev->data->dev_private;
  *port = found;
  port->port_id = dev->data->port_id;
  hash = rte_hash_crc(dev->data->name, strlen(dev->data->name), 0);
  port->mac = (struct rte_ether_addr){{0x02, 0x75, hash >> 24, hash >> 16, hash >> 8, hash}};
  dev->data->mac_addrs = &port->mac;
  dev->data->promiscuous = 1;
  dev->data->all_multicast = 1;
  dev->data->dev_flags |= RTE_ETH_DEV_AUTOFILL_QUEUE_XSTATS;
  dev->data->dev_link = (struct rte_eth_link){
      .link_speed = RTE_ETH_SPEED_NUM_100G,
      .link_duplex = RTE_ETH_LINK_FULL_DUPLEX,
      .link_autoneg = RTE_ETH_LINK_FIXED,
      .link_status = RTE_ETH_LINK_DOWN,
  };
  if (rte_eal_process_type() == RTE_PROC_SECONDARY) {
    err = port_make_ready(dev);
    if (err != 0) {
      port_release(dev);
      return err;
    }
  }
  /* What a process before this one left. */
  __atomic_store_n(&port->shm->polling_tid, 0, __ATOMIC_RELEASE);
  dev->dev_ops = &port_ops;
  dev->rx_pkt_burst = port_rx;
  dev->tx_pkt_burst = port_tx;
  rte_eth_dev_probing_finish(dev);
  return 0;
}

static int net_unis_probe(struct rte_vdev_device *vdev) {
  static const char *const keys[] = {ARG_RX, ARG_TX, ARG_SHM, NULL};
  struct rte_kvargs *kvargs;
  struct port_args args;
  int err;

  kvargs = rte_kvargs_parse(rte_vdev_device_args(vdev), keys);
  if (kvargs == NULL) {
    PORT_LOG(ERR, "cannot read the device's arguments: %s\n", rte_vdev_device_args(vdev));
    return -EINVAL;
  }
  err = port_args_read(kvargs, &args);
  if (err == 0) err = port_create(vdev, &args);
  rte_kvargs_free(kvargs);
  return err;
}

static int net_unis_remove(struct rte_vdev_device *vdev) {
  struct rte_eth_dev *dev = rte_eth_dev_allocated(rte_vdev_device_name(vdev));

  if (dev == NULL) return 0;
  port_close(dev);
  port_release(dev);
  return 0;
}

static struct rte_vdev_driver net_unis_driver = {
    .probe = net_unis_probe,
    .remove = net_unis_remove,
};

RTE_PMD_REGISTER_VDEV(net_unis, net_unis_driver);
RTE_PMD_REGISTER_PARAM_STRING(net_unis,
                              ARG_RX "=<string> " ARG_TX "=<string> " ARG_SHM "=<string>");
