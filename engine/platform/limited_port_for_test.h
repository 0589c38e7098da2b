/* A device with limits on its queues, as NICs have, which DPDK's own virtual devices are without:
 * name it net_limited…. It takes a buffer for each descriptor to receive, and receives nothing. It
 * frees what it sends at once, and counts what it would have missed. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Descriptors. Of those to send it has fewer than it promises, and says so, as virtio does. */
enum { LIMITED_LEAST = 128, LIMITED_MOST = 512, LIMITED_STEP = 32, LIMITED_MOST_TO_SEND = 256 };

/* Descriptors for which it says that they are free to send; what it says that it missed. Of all. */
extern int unis_limited_room, unis_limited_missed;

/* Makes the driver known; again, nothing. */
void unis_add_limited_driver(void);
/* Such a device that is on no bus of virtual devices and was found when EAL started, as a PCI
 * device is. 0, or it could not be made. */
int unis_add_limited_device(const char *name);

#ifdef __cplusplus
}
#endif
