/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Modes of a port that the process may not set, because the port is a device of the kernel's and
 * the process lacks CAP_NET_ADMIN.
 *
 * DPDK sets promiscuous mode whenever a port starts, and does not start it where that is forbidden.
 * A packet socket receives every packet of its device in either mode, so here such a port is one
 * that has no modes: DPDK goes on with it.
 */
#ifndef UNIS_MODES_H
#define UNIS_MODES_H

#include <stdint.h>

/* A port is there. */
void modes_take_port(uint16_t port);

#endif
