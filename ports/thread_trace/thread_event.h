/* What the programs in the kernel tell unis-thread-trace, and this whoever reads its output: all in
 * the machine's byte order, times in ns of CLOCK_MONOTONIC. */
#pragma once

enum thread_event_kind {
  THREAD_RUNS = 1,   /* got its CPU */
  THREAD_WAITS = 2,  /* lost its CPU, and wants it */
  THREAD_SLEEPS = 3, /* gave its CPU up, until it is woken */
  THREAD_WOKEN = 4,
};

struct thread_event {
  unsigned long long ns;
  unsigned int kind;
  unsigned int thread; /* TID */
};

enum {
  TRACE_MOST_THREADS = 64, /* that are watched */
  TRACE_TID_MASK = 0xffff,
};

/* Of a thread that is watched. */
struct watched_thread {
  unsigned long long copy_begin; /* 0: it copies no packet */
  unsigned long long copies;     /* packets that the kernel has copied to it */
  unsigned long long copy_ns;    /* in all */
  unsigned int tid;
  unsigned char next; /* where another one is whose TID has the same low bits; 0: there is none */
  unsigned char unused[3];
};

/* Memory of both sides. */
struct trace_state {
  /* Threads are watched for `open_ns` from the beginning of each period on. `origin_ns` is when one
   * begins, and is set anew now and then, for the periods are of another clock. 0: not at all. */
  unsigned long long origin_ns, period_ns, open_ns;
  unsigned long long now_from; /* beginning of a period; of the last one in which anybody looked */
  unsigned long long lost;     /* events for which there was no room */
  struct watched_thread threads[TRACE_MOST_THREADS + 1];
  /* By the low bits of a TID: where in `threads` the first of those is, from 1; 0: nowhere. */
  unsigned char slots[TRACE_TID_MASK + 1];
};
