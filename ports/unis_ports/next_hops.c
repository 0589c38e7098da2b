/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See next_hops.h.
 */
#include "next_hops.h"

#include <errno.h>
#include <ethdev_driver.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MOST 32
#define HEADER sizeof(struct rte_ether_hdr)

struct next_hop {
  char device[RTE_DEV_NAME_MAX_LEN];
  struct rte_ether_addr address;
  bool has_port;
};

uint32_t next_hops_ports;
extern int unis_ports_logtype;

static struct next_hop hops[MOST];
static unsigned int hop_count;
static struct {
  struct rte_ether_addr next;
  const struct rte_ether_addr *own; /* the port's, which the program may change */
} addresses[MOST];

static int next_hop_add(const char *word, size_t length) {
  const char *equals = memchr(word, '=', length);
  struct next_hop *hop = &hops[hop_count];
  char address[RTE_ETHER_ADDR_FMT_SIZE] = "";
  size_t device, rest;

  if (equals == NULL || hop_count == MOST) return -EINVAL;
  device = (size_t)(equals - word);
  rest = length - device - 1;
  if (device == 0 || device >= sizeof(hop->device) || rest >= sizeof(address)) return -EINVAL;
  memcpy(hop->device, word, device);
  memcpy(address, equals + 1, rest);
  if (rte_ether_unformat_addr(address, &hop->address) != 0) return -EINVAL;
  if (rte_is_multicast_ether_addr(&hop->address)) return -EINVAL;
  hop_count++;
  return 0;
}

int next_hops_read(void) {
  const char *word = getenv(UNIS_NEXT_HOPS_VARIABLE);
  size_t length;

  if (word == NULL || *word == 0) return 0;
  for (;; word += length + 1) {
    length = strcspn(word, ",");
    if (next_hop_add(word, length) != 0) return -EINVAL;
    if (word[length] == 0) return 0;
  }
}

int next_hops_take_port(uint16_t port) {
  const struct rte_eth_dev *dev = &rte_eth_devices[port];
  unsigned int at;

  /* Another device may have had the number before: its address is freed. */
  if (port < MOST) next_hops_ports &= ~(1u << port);
  if (dev->device == NULL || dev->data->mac_addrs == NULL) return 0;
  for (at = 0; at < hop_count; at++) {
    if (strcmp(hops[at].device, dev->device->name) != 0) continue;
    if (port >= MOST) return -ENOTSUP;
    hops[at].has_port = true;
    addresses[port].next = hops[at].address;
    addresses[port].own = dev->data->mac_addrs;
    next_hops_ports |= 1u << port;
  }
  return 0;
}

void next_hops_tell_missing(void) {
  static bool told;
  unsigned int at;

  if (__atomic_exchange_n(&told, true, __ATOMIC_RELAXED)) return;
  for (at = 0; at < hop_count; at++)
    if (!hops[at].has_port)
      rte_log(RTE_LOG_WARNING, unis_ports_logtype,
              "unis_ports: " UNIS_NEXT_HOPS_VARIABLE
              " names device %s, of which the program has no port\n",
              hops[at].device);
}

/* Whether nobody else sees what is written into it. */
static inline bool is_own(const struct rte_mbuf *packet) {
  if (RTE_MBUF_CLONED(packet)) return false;
  if (RTE_MBUF_HAS_EXTBUF(packet)) return rte_mbuf_ext_refcnt_read(packet->shinfo) == 1;
  return rte_mbuf_refcnt_read(packet) == 1;
}

static inline bool has_room(struct rte_mempool *pool) {
  return rte_pktmbuf_data_room_size(pool) >= RTE_PKTMBUF_HEADROOM + HEADER;
}

/* Where a copy has its header in one segment. A clone may come from a pool without room for data;
 * the packet that it is a clone of does not. NULL: nowhere. */
static struct rte_mempool *pool_for_copy(struct rte_mbuf *packet) {
  if (has_room(packet->pool)) return packet->pool;
  if (!RTE_MBUF_CLONED(packet)) return NULL;
  packet = rte_mbuf_from_indirect(packet);
  return has_room(packet->pool) ? packet->pool : NULL;
}

uint16_t next_hops_write_all(uint16_t port, struct rte_mbuf **bufs, uint16_t nb_bufs) {
  uint16_t at;

  for (at = 0; at < nb_bufs; at++) {
    struct rte_ether_hdr *header;

    if (unlikely(bufs[at]->pkt_len < HEADER)) continue; /* no NIC takes it */
    if (unlikely(bufs[at]->data_len < HEADER || !is_own(bufs[at]))) {
      struct rte_mempool *pool = pool_for_copy(bufs[at]);
      struct rte_mbuf *copy = pool == NULL ? NULL : rte_pktmbuf_copy(bufs[at], pool, 0, UINT32_MAX);

      if (copy == NULL) return at;
      rte_pktmbuf_free(bufs[at]);
      bufs[at] = copy;
    }
    header = rte_pktmbuf_mtod(bufs[at], struct rte_ether_hdr *);
    header->dst_addr = addresses[port].next;
    header->src_addr = *addresses[port].own;
  }
  return nb_bufs;
}
