/* SPDX-License-Identifier: BSD-3-Clause */
#include "device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/sock_diag.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static int ask(const struct device *device, unsigned long what, struct ifreq *request) {
  memcpy(request->ifr_name, device->name, sizeof(request->ifr_name));
  return ioctl(device->control, what, request) == 0 ? 0 : -errno;
}

static int set_option(int socket, int level, int option, int value) {
  return setsockopt(socket, level, option, &value, sizeof(value)) == 0 ? 0 : -errno;
}

int device_open(struct device *device, const char *name) {
  struct ifreq request = {0};
  int err;

  memset(device, 0, sizeof(*device));
  strncpy(device->name, name, sizeof(device->name) - 1);
  device->control = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (device->control < 0) return -errno;
  err = ask(device, SIOCGIFINDEX, &request);
  device->index = request.ifr_ifindex;
  if (err == 0) err = ask(device, SIOCGIFHWADDR, &request);
  if (err == 0 && request.ifr_hwaddr.sa_family != ARPHRD_ETHER &&
      request.ifr_hwaddr.sa_family != ARPHRD_LOOPBACK)
    err = -EPROTOTYPE;
  if (err != 0) device_close(device);
  return err;
}

void device_close(struct device *device) {
  close(device->control);
  device->control = -1;
}

/* Larger than net.core.rmem_max only with net_admin. */
static int set_buffer(int socket, int force, int option, int bytes) {
  if (bytes == 0) return 0;
  if (set_option(socket, SOL_SOCKET, force, bytes) == 0) return 0;
  return set_option(socket, SOL_SOCKET, option, bytes);
}

/* Who reads frames by recv() is not told of the tag that the kernel took out: such frames arrive
 * cut to one byte, so that they are seen to be wrong. */
static int cut_tagged(int socket) {
  struct sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
      BPF_STMT(BPF_RET | BPF_K, 1),
  };
  const struct sock_fprog filter = {.len = sizeof(steps) / sizeof(*steps), .filter = steps};

  return setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) == 0 ? 0
                                                                                        : -errno;
}

static int set_receiving(int socket, const struct device_socket_options *options) {
  const struct timeval wait = {.tv_usec = DEVICE_WAIT_MS * 1000};
  int err = set_option(socket, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);

  if (err == 0)
    err = options->tagged ? set_option(socket, SOL_PACKET, PACKET_AUXDATA, 1) : cut_tagged(socket);
  if (err == 0 && options->waits &&
      setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) != 0)
    err = -errno;
  return err;
}

/* The kernel finds a number for the first, which no other group has. */
static int join(int socket, int *group) {
  const int kind = PACKET_FANOUT_HASH | (*group < 0 ? PACKET_FANOUT_FLAG_UNIQUEID : 0);
  socklen_t bytes = sizeof(*group);
  int err = set_option(socket, SOL_PACKET, PACKET_FANOUT,
                       (*group < 0 ? 0 : *group & 0xffff) | kind << 16);

  if (err != 0 || *group >= 0) return err;
  return getsockopt(socket, SOL_PACKET, PACKET_FANOUT, group, &bytes) == 0 ? 0 : -errno;
}

int device_socket(const struct device *device, const struct device_socket_options *options,
                  int *group) {
  /* Of no protocol until it is bound: else it would receive from every device meanwhile. */
  const int made = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  const struct sockaddr_ll address = {
      .sll_family = AF_PACKET,
      .sll_protocol = options->receives ? htons(ETH_P_ALL) : 0,
      .sll_ifindex = device->index,
  };
  int err;

  if (made < 0) return -errno;
  err = set_option(made, SOL_PACKET, PACKET_QDISC_BYPASS, 1);
  if (err == 0) err = set_buffer(made, SO_RCVBUFFORCE, SO_RCVBUF, options->receive_bytes);
  if (err == 0) err = set_buffer(made, SO_SNDBUFFORCE, SO_SNDBUF, options->send_bytes);
  if (err == 0 && options->receives) err = set_receiving(made, options);
  if (err == 0 && bind(made, (const struct sockaddr *)&address, sizeof(address)) != 0) err = -errno;
  if (err == 0 && options->receives && options->many) err = join(made, group);
  if (err == -EINVAL && options->many && !device_running(device)) err = -ENETDOWN;
  if (err == 0) return made;
  close(made);
  return err;
}

bool device_running(const struct device *device) {
  struct ifreq request;

  /* Another one may have the name by now. */
  if (ask(device, SIOCGIFINDEX, &request) != 0 || request.ifr_ifindex != device->index)
    return false;
  if (ask(device, SIOCGIFFLAGS, &request) != 0) return false;
  return (request.ifr_flags & IFF_UP) != 0 && (request.ifr_flags & IFF_RUNNING) != 0;
}

int device_mtu(const struct device *device, uint16_t *mtu) {
  struct ifreq request;
  const int err = ask(device, SIOCGIFMTU, &request);

  if (err == 0) *mtu = request.ifr_mtu > UINT16_MAX ? UINT16_MAX : (uint16_t)request.ifr_mtu;
  return err;
}

int device_set_mtu(const struct device *device, uint16_t mtu) {
  struct ifreq request = {.ifr_mtu = mtu};

  return ask(device, SIOCSIFMTU, &request);
}

int device_mac(const struct device *device, struct rte_ether_addr *mac) {
  struct ifreq request;
  const int err = ask(device, SIOCGIFHWADDR, &request);

  if (err == 0) memcpy(mac->addr_bytes, request.ifr_hwaddr.sa_data, sizeof(mac->addr_bytes));
  return err;
}

int device_set_mac(const struct device *device, const struct rte_ether_addr *mac) {
  struct ifreq request = {.ifr_hwaddr = {.sa_family = ARPHRD_ETHER}};

  memcpy(request.ifr_hwaddr.sa_data, mac->addr_bytes, sizeof(mac->addr_bytes));
  return ask(device, SIOCSIFHWADDR, &request);
}

/* By a membership, not by the device's flag: that needs no net_admin, and it ends with the socket,
 * however the program ends. */
static int set_membership(const struct device *device, unsigned short kind, bool on) {
  const struct packet_mreq request = {.mr_ifindex = device->index, .mr_type = kind};
  const int option = on ? PACKET_ADD_MEMBERSHIP : PACKET_DROP_MEMBERSHIP;
  const int socket = device->control;

  return setsockopt(socket, SOL_PACKET, option, &request, sizeof(request)) == 0 ? 0 : -errno;
}

static int set_mode(const struct device *device, unsigned short kind, bool on, bool *now) {
  const int err = on == *now ? 0 : set_membership(device, kind, on); /* memberships are counted */

  if (err == 0) *now = on;
  return err;
}

int device_set_promiscuous(struct device *device, bool on) {
  return set_mode(device, PACKET_MR_PROMISC, on, &device->promiscuous);
}

int device_set_all_multicast(struct device *device, bool on) {
  return set_mode(device, PACKET_MR_ALLMULTI, on, &device->all_multicast);
}

uint32_t socket_drops(int socket) {
  uint32_t memory[SK_MEMINFO_VARS] = {0};
  socklen_t bytes = sizeof(memory);

  if (getsockopt(socket, SOL_SOCKET, SO_MEMINFO, memory, &bytes) != 0) return 0;
  return memory[SK_MEMINFO_DROPS];
}
