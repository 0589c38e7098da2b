/* A device with limits on its queues, as NICs have, which DPDK's own virtual devices are without:
 * name it net_limited…. It takes a buffer for each descriptor to receive, and receives nothing. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Descriptors. Of those to send it has fewer than it promises, and says so, as virtio does. */
enum { LIMITED_LEAST = 128, LIMITED_MOST = 512, LIMITED_STEP = 32, LIMITED_MOST_TO_SEND = 256 };

/* Makes the driver known; again, nothing. */
void unis_add_limited_driver(void);

#ifdef __cplusplus
}
#endif
