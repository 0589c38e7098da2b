/* The programs whose cost `unis-calibrate` measures: each reads one field of what its tracepoint
 * passes, takes the time, and counts. Attached, they note nothing of anybody.
 */
/* libbpf's headers need the kernel's before them. */
// clang-format off
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
// clang-format on

const char kLicense[] SEC("license") = "GPL";

/* What is read of the kernel's types; libbpf finds where this kernel has it. */
struct sk_buff {
  unsigned int len;
} __attribute__((preserve_access_index));

struct task_struct {
  int pid;
} __attribute__((preserve_access_index));

struct seen {
  __u64 events, last_ns, last_value;
};

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct seen);
} counts SEC(".maps");

static __always_inline int count(__u64 value) {
  const __u32 key = 0;
  struct seen *seen = bpf_map_lookup_elem(&counts, &key);

  if (seen) {
    seen->events += 1;
    seen->last_ns = bpf_ktime_get_ns();
    seen->last_value = value;
  }
  return 0;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(netif_receive_skb, struct sk_buff *skb) { return count(skb->len); }

SEC("tp_btf/net_dev_queue")
int BPF_PROG(net_dev_queue, struct sk_buff *skb) { return count(skb->len); }

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(net_dev_start_xmit, struct sk_buff *skb) { return count(skb->len); }

SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(skb_copy_datagram_iovec, struct sk_buff *skb) { return count(skb->len); }

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, _Bool preempt, struct task_struct *before, struct task_struct *next) {
  (void)preempt;
  (void)before;
  return count((__u64)next->pid);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *task) { return count((__u64)task->pid); }
