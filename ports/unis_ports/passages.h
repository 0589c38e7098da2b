/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Notes when sampled packets pass the ports of the program, if somebody profiles it.
 */
#ifndef UNIS_PASSAGES_H
#define UNIS_PASSAGES_H

#include <ethdev_driver.h>
#include <rte_branch_prediction.h>
#include <stdint.h>

/* Once, before any port is there. 0, or a negative error number: then nothing is ever noted. */
int passages_create(void);

/* Whether somebody does; see passages_shm.h. */
extern const uint32_t *passages_looks;

uint16_t passages_receive_looking(uint16_t port, eth_rx_burst_t burst, void *queue,
                                  struct rte_mbuf **bufs, uint16_t nb_bufs);
uint16_t passages_send_looking(uint16_t port, eth_tx_burst_t burst, void *queue,
                               struct rte_mbuf **bufs, uint16_t nb_bufs);

/* The driver's burst. */
static inline uint16_t passages_receive(uint16_t port, eth_rx_burst_t burst, void *queue,
                                        struct rte_mbuf **bufs, uint16_t nb_bufs) {
  if (likely(__atomic_load_n(passages_looks, __ATOMIC_RELAXED) == 0))
    return burst(queue, bufs, nb_bufs);
  return passages_receive_looking(port, burst, queue, bufs, nb_bufs);
}

static inline uint16_t passages_send(uint16_t port, eth_tx_burst_t burst, void *queue,
                                     struct rte_mbuf **bufs, uint16_t nb_bufs) {
  if (likely(__atomic_load_n(passages_looks, __ATOMIC_RELAXED) == 0))
    return burst(queue, bufs, nb_bufs);
  return passages_send_looking(port, burst, queue, bufs, nb_bufs);
}

#endif
