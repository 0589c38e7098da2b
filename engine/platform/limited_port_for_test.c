#include "engine/platform/limited_port_for_test.h"

#include <ethdev_driver.h>
#include <ethdev_vdev.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>

struct queues {
	struct rte_mbuf *posted[LIMITED_MOST];
	uint16_t rx, tx;
};

int unis_limited_room = LIMITED_MOST, unis_limited_missed;

static int
infos_get(struct rte_eth_dev *dev, struct rte_eth_dev_info *info)
{
	const struct rte_eth_desc_lim limits = {
		.nb_max = LIMITED_MOST, .nb_min = LIMITED_LEAST, .nb_align = LIMITED_STEP};

	(void)dev;
	info->max_rx_queues = info->max_tx_queues = 1;
	info->max_rx_pktlen = RTE_ETHER_MAX_LEN;
	info->rx_desc_lim = info->tx_desc_lim = limits;
	return 0;
}

static int
nothing(struct rte_eth_dev *dev)
{
	(void)dev;
	return 0;
}

static int
link_update(struct rte_eth_dev *dev, int wait)
{
	(void)dev;
	(void)wait;
	return 0;
}

static int
rx_queue_setup(struct rte_eth_dev *dev, uint16_t queue, uint16_t descriptors, unsigned int socket,
	       const struct rte_eth_rxconf *conf, struct rte_mempool *pool)
{
	struct queues *queues = dev->data->dev_private;

	(void)socket;
	(void)conf;
	if (rte_pktmbuf_alloc_bulk(pool, queues->posted, descriptors) != 0)
		return -ENOMEM;
	queues->rx = descriptors;
	dev->data->rx_queues[queue] = queues;
	return 0;
}

static int
tx_queue_setup(struct rte_eth_dev *dev, uint16_t queue, uint16_t descriptors, unsigned int socket,
	       const struct rte_eth_txconf *conf)
{
	struct queues *queues = dev->data->dev_private;

	(void)socket;
	(void)conf;
	queues->tx = RTE_MIN(descriptors, LIMITED_MOST_TO_SEND);
	dev->data->tx_queues[queue] = queues;
	return 0;
}

static void
rxq_info_get(struct rte_eth_dev *dev, uint16_t queue, struct rte_eth_rxq_info *info)
{
	(void)queue;
	info->nb_desc = ((struct queues *)dev->data->dev_private)->rx;
}

static void
txq_info_get(struct rte_eth_dev *dev, uint16_t queue, struct rte_eth_txq_info *info)
{
	(void)queue;
	info->nb_desc = ((struct queues *)dev->data->dev_private)->tx;
}

static int
stopped(struct rte_eth_dev *dev)
{
	struct queues *queues = dev->data->dev_private;

	rte_pktmbuf_free_bulk(queues->posted, queues->rx);
	queues->rx = 0;
	return 0;
}

static int
closed(struct rte_eth_dev *dev)
{
	stopped(dev);
	dev->data->mac_addrs = NULL;
	return 0;
}

static uint16_t
burst(void *queue, struct rte_mbuf **packets, uint16_t count)
{
	(void)queue;
	(void)packets;
	(void)count;
	return 0;
}

static uint16_t
sent(void *queue, struct rte_mbuf **packets, uint16_t count)
{
	(void)queue;
	rte_pktmbuf_free_bulk(packets, count);
	return count;
}

static int
descriptor_status(void *queue, uint16_t offset)
{
	(void)queue;
	return offset < unis_limited_room ? RTE_ETH_TX_DESC_DONE : RTE_ETH_TX_DESC_FULL;
}

static int
stats_get(struct rte_eth_dev *dev, struct rte_eth_stats *stats)
{
	(void)dev;
	stats->imissed = (uint64_t)unis_limited_missed;
	return 0;
}

static const struct eth_dev_ops ops = {
	.dev_configure = nothing,
	.dev_start = nothing,
	.dev_stop = stopped,
	.dev_close = closed,
	.dev_infos_get = infos_get,
	.link_update = link_update,
	.rx_queue_setup = rx_queue_setup,
	.tx_queue_setup = tx_queue_setup,
	.rxq_info_get = rxq_info_get,
	.txq_info_get = txq_info_get,
	.stats_get = stats_get,
};

static void
set_up(struct rte_eth_dev *dev)
{
	static struct rte_ether_addr mac = {.addr_bytes = {2}};

	dev->data->mac_addrs = &mac;
	dev->dev_ops = &ops;
	dev->rx_pkt_burst = burst;
	dev->tx_pkt_burst = sent;
	dev->tx_descriptor_status = descriptor_status;
	rte_eth_dev_probing_finish(dev);
}

int
unis_add_limited_device(const char *name)
{
	static struct rte_driver driver = {.name = "limited"};
	static struct rte_device device;
	struct rte_eth_dev *dev = rte_eth_dev_allocate(name);

	if (dev == NULL)
		return -1;
	device.name = name;
	device.driver = &driver;
	dev->device = &device;
	dev->data->dev_private = rte_zmalloc(NULL, sizeof(struct queues), 0);
	if (dev->data->dev_private == NULL)
		return -1;
	set_up(dev);
	return 0;
}

static int
probe(struct rte_vdev_device *vdev)
{
	struct rte_eth_dev *dev = rte_eth_vdev_allocate(vdev, sizeof(struct queues));

	if (dev == NULL)
		return -ENOMEM;
	set_up(dev);
	return 0;
}

static int
removed(struct rte_vdev_device *vdev)
{
	struct rte_eth_dev *dev = rte_eth_dev_allocated(rte_vdev_device_name(vdev));

	if (dev == NULL)
		return 0;
	closed(dev);
	return rte_eth_dev_release_port(dev);
}

void
unis_add_limited_driver(void)
{
	static struct rte_vdev_driver driver = {
		.driver = {.name = "net_limited"}, .probe = probe, .remove = removed};
	static int added;

	if (!added)
		rte_vdev_register(&driver);
	added = 1;
}
