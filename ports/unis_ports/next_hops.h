/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Writes the MAC address of the next hop into the packets that a program sends, for programs that
 * do not write it themselves. The switch of a NIC carries a packet to its destination MAC address,
 * so on virtual functions a packet without that comes back to its sender.
 */
#ifndef UNIS_NEXT_HOPS_H
#define UNIS_NEXT_HOPS_H

#include <rte_branch_prediction.h>
#include <rte_ether.h>
#include <rte_mbuf_core.h>
#include <stdint.h>

/* Names of devices and the addresses that their ports send to:
 * 0000:01:10.1=02:00:00:00:00:01,net_mmsg1=02:00:00:00:00:02 */
#define UNIS_NEXT_HOPS_VARIABLE "UNIS_NEXT_HOPS"

/* Whether the port of this number has a next hop. */
extern uint32_t next_hops_ports; /* a bit each; ports from 32 on have none */

/* Once, before any port is there. 0, or -EINVAL: the variable is wrong. */
int next_hops_read(void);

/* Looks whether the port is of a device in the variable. -ENOTSUP: it is, and has a number too
 * high. */
int next_hops_take_port(uint16_t port);

/* Logs the devices in the variable that no port is of, the first time that it is called. */
void next_hops_tell_missing(void);

uint16_t next_hops_write_all(uint16_t port, struct rte_mbuf **bufs, uint16_t nb_bufs);

/* Writes the next hop's address as destination, and the port's own as source. Returns how many of
 * the packets may be sent: fewer where one is shared with others, or has its header in several
 * segments, and could not be copied. */
static inline uint16_t next_hops_write(uint16_t port, struct rte_mbuf **bufs, uint16_t nb_bufs) {
  if (likely((next_hops_ports >> port & 1) == 0)) return nb_bufs;
  return next_hops_write_all(port, bufs, nb_bufs);
}

#endif
