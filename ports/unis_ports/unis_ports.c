/* SPDX-License-Identifier: BSD-3-Clause
 *
 * unis_ports: an EAL plug-in that stands between an unmodified program and the ports that it opens,
 * whatever their driver:
 *
 *   PROGRAM -d librte_unis_ports.so ...
 *
 * It is a bus without devices, because buses are probed when EAL's memory is there and before any
 * port. A program that nobody schedules, and that asks for nothing, it lets alone.
 */
#include <bus_driver.h>
#include <errno.h>
#include <ethdev_driver.h>
#include <rte_common.h>
#include <rte_ethdev.h>
#include <rte_log.h>
#include <stdlib.h>
#include <string.h>

#include "lcore_usage.h"
#include "modes.h"
#include "next_hops.h"
#include "offloads.h"
#include "passages.h"
#include "pools.h"
#include "turns.h"

RTE_LOG_REGISTER_DEFAULT(unis_ports_logtype, NOTICE);

static void take_port(uint16_t port) {
  turns_take_port(port);
  if (next_hops_take_port(port) != 0)
    rte_exit(EXIT_FAILURE, "unis_ports: port %u cannot have a next hop: too many ports\n", port);
  offloads_take_port(port);
  modes_take_port(port);
  pools_take_port(port);
}

static int on_new_port(uint16_t port, enum rte_eth_event_type event __rte_unused,
                       void *arg __rte_unused, void *result __rte_unused) {
  take_port(port);
  return 0;
}

static int bus_scan(void) { return 0; }

static int bus_probe(void) {
  int err = turns_create();
  const int no_turns = err;
  const char *hops = getenv(UNIS_NEXT_HOPS_VARIABLE);
  uint16_t port;

  if (err != 0) /* the program can do without */
    rte_log(RTE_LOG_ERR, unis_ports_logtype, "unis_ports: cannot make the file of the turns: %s\n",
            strerror(-err));
  lcore_usage_create();
  err = passages_create();
  if (err != 0)
    rte_log(RTE_LOG_ERR, unis_ports_logtype,
            "unis_ports: cannot make the file of the passages: %s\n", strerror(-err));
  if (offloads_read() != 0)
    rte_log(RTE_LOG_ERR, unis_ports_logtype,
            "unis_ports: " UNIS_OFFLOADS_VARIABLE " has a name that is not known\n");
  /* Without them packets would go round for ever. EAL goes on if a bus cannot be probed. */
  if (next_hops_read() != 0)
    rte_exit(EXIT_FAILURE,
             "unis_ports: " UNIS_NEXT_HOPS_VARIABLE " has an entry that is not DEVICE=MAC\n");
  if (no_turns != 0 && hops != NULL && *hops != 0) /* then bursts stay the drivers' */
    rte_exit(EXIT_FAILURE, "unis_ports: cannot write next hops without the file of the turns\n");
  /* Ports of buses that were probed before. */
  RTE_ETH_FOREACH_DEV(port)
  take_port(port);
  return rte_eth_dev_callback_register(RTE_ETH_ALL, RTE_ETH_EVENT_NEW, on_new_port, NULL);
}

static struct rte_device *bus_find_device(const struct rte_device *start __rte_unused,
                                          rte_dev_cmp_t cmp __rte_unused,
                                          const void *data __rte_unused) {
  return NULL;
}

static int bus_no_device(struct rte_device *device __rte_unused) { return -ENODEV; }

static int bus_parse(const char *name __rte_unused, void *address __rte_unused) {
  return 1; /* no name is one of its devices */
}

static struct rte_bus unis_ports_bus = {
    .scan = bus_scan,
    .probe = bus_probe,
    .find_device = bus_find_device,
    .plug = bus_no_device,
    .unplug = bus_no_device,
    .parse = bus_parse,
};

RTE_REGISTER_BUS(unis_ports, unis_ports_bus);
