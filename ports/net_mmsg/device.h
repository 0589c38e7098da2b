/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernel's network device below a port, by its name, and packet sockets on it. Functions return
 * 0 or a negative errno.
 */
#pragma once

#include <rte_ether.h>
#include <stdbool.h>
#include <stdint.h>

#define DEVICE_MOST_SOCKETS 16
#define DEVICE_WAIT_MS 10 /* the most that a socket that waits does so */

struct device {
  char name[16]; /* IFNAMSIZ */
  int index;
  int control; /* a packet socket that receives nothing; promiscuous mode goes with it */
  bool promiscuous;
  bool all_multicast;
};

struct device_socket_options {
  int receive_bytes; /* of the socket's buffer, as SO_RCVBUF; 0: the kernel's default */
  int send_bytes;
  bool receives;
  bool waits; /* receives block for at most DEVICE_WAIT_MS */
  bool
      tagged; /* frames come with what is known of their VLAN tag; else cut short if they had one */
  bool many;  /* sockets of the device share what is received, by the flow */
};

/* -ENODEV: there is none of the name. -EPROTOTYPE: its frames are not those of Ethernet. */
int device_open(struct device *device, const char *name);
void device_close(struct device *device);

/* Returns a socket, or a negative errno. Sockets that share are opened one behind the other;
 * `group` is -1 for the first of them and is then set. Those are only made while the device is up.
 */
int device_socket(const struct device *device, const struct device_socket_options *options,
                  int *group);

/* Whether it is there, is up and has a carrier. */
bool device_running(const struct device *device);
int device_mtu(const struct device *device, uint16_t *mtu);
int device_set_mtu(const struct device *device, uint16_t mtu);
int device_mac(const struct device *device, struct rte_ether_addr *mac);
int device_set_mac(const struct device *device, const struct rte_ether_addr *mac);
int device_set_promiscuous(struct device *device, bool on);
int device_set_all_multicast(struct device *device, bool on);

/* Frames that a socket had no room for, since it was made, modulo 2^32. Reading changes nothing, so
 * anybody who has the socket may read too: unlike PACKET_STATISTICS, which counts from 0 then. */
uint32_t socket_drops(int socket);
