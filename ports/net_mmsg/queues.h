/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The queues of a port, and its bursts. A queue is one socket's, and has all that a burst needs
 * since it was made: a burst allocates no memory but the packet buffers that a program takes along.
 */
#pragma once

#include <rte_mempool.h>
#include <stdbool.h>
#include <stdint.h>

#define QUEUE_MOST_BATCH 256

struct queue_counters {
  uint64_t packets;
  uint64_t bytes;
  uint64_t errors;
  uint64_t no_buffer; /* bursts for which there were too few packet buffers */
};

struct queue_options {
  uint16_t port;
  uint16_t batch; /* frames a burst at most, 1 to QUEUE_MOST_BATCH */
  bool single;    /* a system call a frame, recv() or send(), instead of one a burst */
  bool waits;     /* a burst that finds nothing waits */
  bool strips;    /* a VLAN tag is in the packet's metadata, not in the packet */
};

struct rx_queue;
struct tx_queue;

/* Memory of NUMA node `node`. NULL: there is too little. */
struct rx_queue *rx_queue_create(const struct queue_options *options, struct rte_mempool *pool,
                                 unsigned int node);
struct tx_queue *tx_queue_create(const struct queue_options *options, unsigned int node);
/* Of what is received. */
struct rte_mempool *rx_queue_pool(const struct rx_queue *queue);
void rx_queue_free(struct rx_queue *queue);
void tx_queue_free(struct tx_queue *queue);

/* Before the first burst, and again after each stop. */
void rx_queue_use(struct rx_queue *queue, int socket);
void tx_queue_use(struct tx_queue *queue, int socket);
/* Frames without VLAN tag that are longer are errors. Any thread. */
void tx_queue_set_mtu(struct tx_queue *queue, uint16_t mtu);
/* A VLAN tag is taken out, or stays in the packet. Any thread. */
void rx_queue_set_strips(struct rx_queue *queue, bool strips);

struct queue_counters rx_queue_counters(const struct rx_queue *queue);
struct queue_counters tx_queue_counters(const struct tx_queue *queue);

/* One non-blocking system call, unless the options say otherwise: no more than `batch`. For ethdev.
 */
uint16_t rx_burst(void *queue, struct rte_mbuf **packets, uint16_t count);
/* A system call for each `batch` of them. Returns how many were taken from the caller: sent, or
 * freed and counted as errors. The others the kernel has no room for now. */
uint16_t tx_burst(void *queue, struct rte_mbuf **packets, uint16_t count);
