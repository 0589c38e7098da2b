/* SPDX-License-Identifier: BSD-3-Clause
 *
 * When sampled packets passed the ports of a program, told to whoever profiles it: an anonymous
 * file that the plug-in makes when the program starts, found by its name among the open files of
 * the process, sealed against shrinking. The engine makes one too, for its source and its sink.
 *
 * A synthetic packet has a mark and a stamp in its payload: the time when it was due (TSC), which
 * grows from packet to packet. Time is cut into periods from `origin` on. The first packet of a
 * period that comes to a place is sampled there, so a burst costs a look at its last packet only.
 * Where no packet was lost or overtaken each place samples the same ones: the reader compares the
 * stamps, and leaves out those that not all have.
 *
 * Each field is loaded and stored whole. Whoever reads believes none of it.
 */
#ifndef UNIS_PASSAGES_SHM_H
#define UNIS_PASSAGES_SHM_H

#include <stdint.h>

#define UNIS_PASSAGES_FILE "unis_passages" /* name of the memfd */
#define UNIS_PASSAGES_VERSION 3
#define UNIS_PASSAGES_THREADS 32
#define UNIS_PASSAGES_KEPT 8192  /* the newest of a thread; a power of two */
#define UNIS_PASSAGES_MARK_AT 44 /* bytes from the first of the frame: mark, then stamp */

enum unis_passage_kind {
  UNIS_RECEIVED = 1, /* by a receive burst: of the port's driver, or of the engine's sink */
  UNIS_SENT = 2,     /* by a send burst, likewise; of the engine's source */
};

struct unis_passage {
  uint64_t stamp; /* of the packet */
  uint64_t begin; /* the burst was called (TSC) */
  uint64_t end;   /* and returned */
  uint16_t kind;
  uint16_t own; /* TSC cycles by which it was held up to be looked at and noted, UINT16_MAX: that or
                 * more; of what was received after `end`, of what was sent before `begin` */
  uint16_t packets; /* of the burst; where it was sent: that were taken */
  uint16_t port;    /* its number in the process; of the engine: of its chain, from 0 */
};

/* Of one thread. The oldest are overwritten: while that is being done, also the one at
 * `written` - KEPT. A thread that ends may leave its place, and what it noted, to a later one. */
struct unis_passage_log {
  int32_t tid; /* in its own PID namespace; 0: nobody's yet */
  uint32_t unused;
  uint64_t written; /* passages, ever; stored after the passage */
  uint64_t unused_too[6];
  struct unis_passage passages[UNIS_PASSAGES_KEPT]; /* the nth at n % KEPT */
};

struct unis_passages {
  uint32_t version;
  /* Written by the reader. */
  uint32_t looks;  /* 0: nothing is sampled. 1: it is. 2: likewise, and each look and note is done
                    * twice, once for its cost only */
  uint64_t mark;   /* in front of the stamp of packets that have one */
  uint64_t origin; /* TSC: packets with an earlier stamp are not sampled. Stored last: another one
                    * than before begins anew */
  uint64_t period; /* TSC cycles, at least 1 */
  uint64_t until;  /* TSC: who receives later than this sets `looks` to 0, for the reader is gone */
  uint64_t unused[3];
  struct unis_passage_log logs[UNIS_PASSAGES_THREADS];
};

#endif
