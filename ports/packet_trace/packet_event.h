/* What the programs in the kernel tell unis-packet-trace, and this whoever reads its output: all in
 * the machine's byte order, times in ns of CLOCK_MONOTONIC. */
#pragma once

enum packet_event_kind {
  PACKET_ARRIVED = 1, /* on a device, just before the sockets there are given it */
  PACKET_TAKEN = 2,   /* by a receive call, about to be copied */
  THREAD_RUNS = 3,    /* got its CPU */
  THREAD_WAITS = 4,   /* lost its CPU, and wants it */
  THREAD_SLEEPS = 5,  /* gave its CPU up, until it is woken */
  THREAD_WOKEN = 6,
  PACKET_CAME = 7, /* to the sink of the engine */
};

/* A packet is sampled if its stamp by this is no greater than a bound: what is sampled at one bound
 * is at every greater one. */
#define PACKET_HASH 0x9E3779B97F4A7C15ull
/* The engine tells of no more than one packet of so many. */
#define PACKET_CAME_ONE_IN 16

struct packet_event {
  unsigned long long ns;
  unsigned long long packet; /* its stamp: TSC cycles; 0 of a thread */
  unsigned int kind;
  unsigned int thread;     /* TID; of a packet: in whose call it is, 0: of none that is watched */
  unsigned int device;     /* ARRIVED: index in its namespace; else 0 */
  unsigned int name_space; /* ARRIVED: inode of the device's network namespace; else 0 */
  /* Of the thread, when last; 0: not yet. */
  unsigned long long entered;  /* it entered a system call: in an event of a packet, this one; of
                                * PACKET_CAME: when, TSC cycles */
  unsigned long long copied;   /* ARRIVED: a sampled packet had been copied to it */
  unsigned long long returned; /* ARRIVED: the call that did so returned */
};

enum {
  PACKET_MARK_AT = 44,      /* bytes from the first of the frame; PayloadStamp::kAt */
  PACKET_MOST_THREADS = 32, /* that are watched */
  PACKET_TID_MASK = 0xffff,
};

/* Constant while the programs are loaded. */
struct packet_settings {
  unsigned long long mark; /* in front of the stamp of a packet; PayloadStamp::kMagic */
  unsigned long long most; /* a packet is sampled if the hash of its stamp is no greater */
  /* Where sampled packets come first, and where the last is seen of them. */
  unsigned int first_device, first_space;
  unsigned int last_device, last_space;
};

/* Of a thread that is watched, ns. */
struct packet_thread {
  unsigned long long entered, copied, returned;
  unsigned int tid;
  unsigned int copying; /* a sampled packet was taken, and is being copied */
  unsigned int in_call; /* likewise, and the call has not returned */
};

/* Memory of both sides. */
struct packet_state {
  /* TSC cycles: packets with an earlier stamp are not followed, for who was on the way already was
   * not seen at each place. 0: none is followed. */
  unsigned long long since;
  unsigned long long lost; /* events for which there was no room */
  long long in_flight;     /* sampled packets between the first device and the last */
  struct packet_thread threads[PACKET_MOST_THREADS + 1];
  /* By the low bits of a TID: where in `threads` it may be, from 1; 0: nowhere. */
  unsigned char slots[PACKET_TID_MASK + 1];
};
