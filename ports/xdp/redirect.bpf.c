// Brings what a device receives to the AF_XDP socket of the queue, where there is one; the rest goes
// on into the kernel. DPDK's net_af_xdp loads it (xdp_prog=), attaches it to its device and puts its
// sockets into the map, which it looks up by this name.
//
// The program of libxdp does the same, but to attach that needs CAP_SYS_ADMIN.
#include <linux/bpf.h>

struct {
  int (*type)[BPF_MAP_TYPE_XSKMAP];
  int (*max_entries)[16];
  int* key;
  int* value;
} xsks_map __attribute__((section(".maps"), used));

static long (*const redirect_map)(void*, __u64, __u64) = (void*)BPF_FUNC_redirect_map;

__attribute__((section("xdp"), used)) int unis_xdp(struct xdp_md* packet) {
  return redirect_map(&xsks_map, packet->rx_queue_index, XDP_PASS);
}
