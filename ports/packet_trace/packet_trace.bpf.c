/* Follows sampled packets of a chain on kernel devices, and the threads that have them.
 *
 * A packet that is not sampled costs a look at 16 bytes of its payload at each of two points. What
 * threads do is told only while sampled packets are on their way. */
#include <asm/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <linux/bpf.h>

#include "packet_event.h"

#define KERNEL_TYPE __attribute__((preserve_access_index))

/* What is used of the kernel's structures; where it is in the running kernel libbpf finds out. */
struct ns_common {
  unsigned int inum;
} KERNEL_TYPE;
struct net {
  struct ns_common ns;
} KERNEL_TYPE;
typedef struct {
  struct net *net;
} KERNEL_TYPE possible_net_t;
struct net_device {
  int ifindex;
  possible_net_t nd_net;
} KERNEL_TYPE;
struct sk_buff {
  struct net_device *dev;
  unsigned char *head, *data;
  unsigned int len, data_len;
  __u16 mac_header;
} KERNEL_TYPE;
struct task_struct {
  int pid;
} KERNEL_TYPE;

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 1 << 22);
} events SEC(".maps");

const volatile struct packet_settings settings SEC(".rodata.settings");
struct packet_state state SEC(".data.state");

static __always_inline struct packet_thread *thread_of(__u32 tid) {
  const __u32 slot = state.slots[tid & PACKET_TID_MASK];

  if (slot == 0 || slot > PACKET_MOST_THREADS) return 0;
  return state.threads[slot].tid == tid ? &state.threads[slot] : 0;
}

static __always_inline struct packet_event *new_event(__u32 kind, __u64 now) {
  struct packet_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

  if (event == 0) {
    __sync_fetch_and_add(&state.lost, 1);
    return 0;
  }
  __builtin_memset(event, 0, sizeof(*event));
  event->ns = now;
  event->kind = kind;
  return event;
}

struct payload {
  __u64 mark, stamp;
};

static __always_inline long read_payload(struct sk_buff *skb, struct payload *payload) {
  const unsigned char *at = skb->head + skb->mac_header + PACKET_MARK_AT;
  const __u64 offset = at - skb->data;

  /* What was sent by sendmmsg is in one piece. */
  if (offset + sizeof(*payload) > skb->len - skb->data_len) return -1;
  return bpf_probe_read_kernel(payload, sizeof(*payload), at);
}

static __always_inline _Bool is_followed(__u64 stamp) {
  return state.since != 0 && stamp >= state.since && stamp * PACKET_HASH <= settings.most;
}

/* The stamp of a packet that is followed, else 0. */
static __always_inline __u64 sampled(struct sk_buff *skb) {
  struct payload payload;

  if (state.since == 0 || read_payload(skb, &payload) != 0) return 0;
  if (payload.mark != settings.mark) return 0;
  return is_followed(payload.stamp) ? payload.stamp : 0;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(packet_arrives, struct sk_buff *skb) {
  const __u64 stamp = sampled(skb);
  struct packet_event *event;
  struct packet_thread *thread;
  __u32 tid, device, space;

  if (stamp == 0) return 0;
  device = (__u32)skb->dev->ifindex;
  space = skb->dev->nd_net.net->ns.inum;
  if (device == settings.first_device && space == settings.first_space)
    __sync_fetch_and_add(&state.in_flight, 1);
  if (device == settings.last_device && space == settings.last_space)
    __sync_fetch_and_add(&state.in_flight, -1);
  event = new_event(PACKET_ARRIVED, bpf_ktime_get_ns());
  if (event == 0) return 0;
  event->packet = stamp;
  event->device = device;
  event->name_space = space;
  tid = (__u32)bpf_get_current_pid_tgid();
  thread = thread_of(tid);
  if (thread != 0) {
    event->thread = tid;
    event->entered = thread->entered;
    event->copied = thread->copied;
    event->returned = thread->returned;
  }
  bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
  return 0;
}

/* In the engine: unis_packet_came(stamp, cycles). */
SEC("uprobe")
int BPF_KPROBE(packet_came, __u64 stamp, __u64 cycles) {
  struct packet_event *event;

  if (!is_followed(stamp)) return 0;
  event = new_event(PACKET_CAME, bpf_ktime_get_ns());
  if (event == 0) return 0;
  event->packet = stamp;
  event->entered = cycles;
  bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
  return 0;
}

SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(packet_is_taken, struct sk_buff *skb, int length) {
  const __u64 stamp = sampled(skb);
  const __u32 tid = (__u32)bpf_get_current_pid_tgid();
  struct packet_event *event;
  struct packet_thread *thread;

  if (stamp == 0) return 0;
  thread = thread_of(tid);
  if (thread == 0) return 0;
  event = new_event(PACKET_TAKEN, bpf_ktime_get_ns());
  if (event == 0) return 0;
  event->packet = stamp;
  event->thread = tid;
  event->entered = thread->entered;
  thread->copying = thread->in_call = 1;
  bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
  return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(message_received, void *socket, int length, int flags) {
  struct packet_thread *thread = thread_of((__u32)bpf_get_current_pid_tgid());

  if (thread == 0 || thread->copying == 0) return 0;
  thread->copying = 0;
  thread->copied = bpf_ktime_get_ns();
  return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(call_begins, void *registers, long number) {
  struct packet_thread *thread = thread_of((__u32)bpf_get_current_pid_tgid());

  if (thread != 0) thread->entered = bpf_ktime_get_ns();
  return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(call_ends, void *registers, long result) {
  struct packet_thread *thread = thread_of((__u32)bpf_get_current_pid_tgid());

  if (thread == 0 || thread->in_call == 0) return 0;
  thread->in_call = 0;
  thread->returned = bpf_ktime_get_ns();
  return 0;
}

static __always_inline void tell(__u32 kind, __u32 tid, __u64 now) {
  struct packet_event *event;

  if (thread_of(tid) == 0) return;
  event = new_event(kind, now);
  if (event == 0) return;
  event->thread = tid;
  bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(cpu_switches, _Bool preempted, struct task_struct *before, struct task_struct *after,
             unsigned int left) {
  __u64 now;

  if (state.since == 0 || state.in_flight <= 0) return 0;
  now = bpf_ktime_get_ns();
  tell(preempted || left == 0 ? THREAD_WAITS : THREAD_SLEEPS, (__u32)before->pid, now);
  tell(THREAD_RUNS, (__u32)after->pid, now);
  return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(thread_wakes, struct task_struct *task) {
  if (state.since == 0 || state.in_flight <= 0) return 0;
  tell(THREAD_WOKEN, (__u32)task->pid, bpf_ktime_get_ns());
  return 0;
}

char packet_license[] SEC("license") = "GPL";
