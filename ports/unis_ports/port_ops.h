/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a driver does for a port, where it can be changed for this port and this process alone.
 */
#ifndef UNIS_PORT_OPS_H
#define UNIS_PORT_OPS_H

#include <ethdev_driver.h>
#include <stdint.h>

/* The port's own copy of its driver's functions, which the port uses from the first call on. NULL:
 * the port has none. */
struct eth_dev_ops *port_ops(uint16_t port);

#endif
