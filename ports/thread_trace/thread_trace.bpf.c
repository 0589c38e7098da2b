/* When the threads of a chain run, wait for their CPU and sleep, and how long the kernel copies
 * packets to them. No program looks at a packet. */
#include <asm/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <linux/bpf.h>

#include "thread_event.h"

/* What is used of the kernel's structures; where it is in the running kernel libbpf finds out. */
struct task_struct {
  int pid;
} __attribute__((preserve_access_index));

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 1 << 22);
} events SEC(".maps");

struct trace_state state SEC(".data.state");

static __always_inline struct watched_thread *thread_of(__u32 tid) {
  unsigned char slot = state.slots[tid & TRACE_TID_MASK];
  int i;

  for (i = 0; i < TRACE_MOST_THREADS; i++) {
    if (slot == 0 || slot > TRACE_MOST_THREADS) return 0;
    if (state.threads[slot].tid == tid) return &state.threads[slot];
    slot = state.threads[slot].next;
  }
  return 0;
}

/* Whether sampled packets may be on their way. */
static __always_inline _Bool is_open(__u64 now) {
  const __u64 origin = state.origin_ns, period = state.period_ns;

  if (origin == 0 || now < origin || period == 0) return 0;
  /* A division for each period, not for each switch. CPUs that meet here store the same. */
  if (now - state.now_from >= period) state.now_from = now - (now - origin) % period;
  return now - state.now_from < state.open_ns;
}

static __always_inline void tell(__u32 kind, __u32 tid, __u64 now) {
  struct thread_event *event;

  if (thread_of(tid) == 0) return;
  event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
  if (event == 0) {
    __sync_fetch_and_add(&state.lost, 1);
    return;
  }
  event->ns = now;
  event->kind = kind;
  event->thread = tid;
  bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(cpu_switches, _Bool preempted, struct task_struct *before, struct task_struct *after,
             unsigned int left) {
  const __u64 now = bpf_ktime_get_ns();

  if (!is_open(now)) return 0;
  tell(preempted || left == 0 ? THREAD_WAITS : THREAD_SLEEPS, (__u32)before->pid, now);
  tell(THREAD_RUNS, (__u32)after->pid, now);
  return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(thread_wakes, struct task_struct *task) {
  const __u64 now = bpf_ktime_get_ns();

  if (is_open(now)) tell(THREAD_WOKEN, (__u32)task->pid, now);
  return 0;
}

SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(copy_begins, void *skb, int length) {
  struct watched_thread *thread = thread_of((__u32)bpf_get_current_pid_tgid());

  if (thread != 0) thread->copy_begin = bpf_ktime_get_ns();
  return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(message_received, void *socket, int length, int flags) {
  struct watched_thread *thread = thread_of((__u32)bpf_get_current_pid_tgid());

  if (thread == 0 || thread->copy_begin == 0) return 0;
  thread->copies += 1;
  thread->copy_ns += bpf_ktime_get_ns() - thread->copy_begin;
  thread->copy_begin = 0;
  return 0;
}

char trace_license[] SEC("license") = "GPL";
