#include "engine/platform/dead_port.h"

#include <ethdev_driver.h>

void
unis_release_dead_port(const char *name)
{
	struct rte_eth_dev *dev;
	uint16_t port;

	if (rte_eth_dev_get_port_by_name(name, &port) != 0)
		return;
	dev = rte_eth_dev_attach_secondary(name);
	if (dev == NULL)
		return;
	dev->data->mac_addrs = NULL; /* part of dev_private */
	dev->state = RTE_ETH_DEV_ATTACHED;
	rte_eth_dev_release_port(dev);
}
