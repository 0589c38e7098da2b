/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the engine and a program share of the program's turns on its CPU: an anonymous file that the
 * plug-in makes when the program starts, found by its name among the open files of the process,
 * sealed against shrinking before anybody maps it.
 *
 * A turn ends where a thread polls: when it has found its ports empty, when it has taken its quota,
 * or when the engine asks. The thread then passes the CPU on to the next of the same real-time
 * priority (sched_yield). A quota of 0, as it is at first, means that nobody schedules the program
 * and it never passes on.
 *
 * A core on which nobody has work rests: at the engine's word each of its threads sleeps where it
 * has emptied its ports: each gave fewer packets than were asked for. It waits on the word
 * (FUTEX_WAIT), and FUTEX_WAKE ends that. It never sleeps longer than UNIS_REST_MS, and then polls,
 * because the program may have work by the clock. The engine renews the word more often than that.
 * A word that was not renewed is of an engine that is gone, and no longer holds.
 *
 * Each field is loaded and stored whole. The engine believes none of it: it chooses no more by it
 * than whom to expect on the CPU, and counts by it what came from outside and what went there.
 */
#ifndef UNIS_TURNS_SHM_H
#define UNIS_TURNS_SHM_H

#include <stdint.h>

#define UNIS_TURNS_FILE "unis_turns" /* name of the memfd */
#define UNIS_TURNS_VERSION 4
#define UNIS_TURNS_THREADS 32
#define UNIS_TURNS_PORTS 32
/* A grant: its number, which is another than that of the one before, and packets. */
#define UNIS_GRANT_MOST 0xfffffu /* packets */
#define UNIS_GRANTS 0xfffu       /* numbers, from 1 on */
#define UNIS_GRANT_MS 10         /* a thread waits so long for a new one, then goes on without */
#define UNIS_REST_MS 4           /* that a thread sleeps at most, until it polls again */
#define UNIS_TURNS_LINE 64       /* bytes that CPUs pass to each other at once */

/* A thread that polls, in two cache lines of one writer each. */
struct unis_turn {
  /* Written by the thread. In a turn: began != passed. */
  int32_t tid;           /* 0: nobody's yet */
  uint32_t began;        /* turns begun; wraps */
  uint32_t passed;       /* `began` of the last turn that was passed on */
  uint32_t taken;        /* packets, in all turns that are over; wraps */
  uint64_t began_at;     /* when the last turn began (TSC) */
  uint64_t began_before; /* and the one before; written first */
  uint32_t unused_too[8];
  /* Written by the engine. */
  uint32_t leave; /* the turn to be passed on at its next poll; 0: none */
  uint32_t rest;  /* to sleep while this stands here; 0: no. Changes when it is renewed */
  uint32_t grant; /* packets that the turns may take from when it is seen on; 0: any number */
  uint32_t unused_either[13];
};

/* What went through a port that the program is to count (UNIS_COUNTED), by its number. */
struct unis_port_count {
  uint64_t received; /* packets; written by who receives */
  uint64_t unused[7];
  uint64_t sent; /* packets that the driver took; written by who sends */
  uint64_t sent_bytes;
  uint64_t unused_too[6];
};

struct unis_turns {
  uint32_t version;
  uint32_t quota; /* packets that a turn may take; written by the engine */
  uint32_t unused[14];
  struct unis_turn threads[UNIS_TURNS_THREADS];
  struct unis_port_count ports[UNIS_TURNS_PORTS];
};

#endif
