/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How busy the lcores of a program are, by DPDK's own measure: the cycles from a receive burst that
 * brought packets to the next burst are busy. Told by DPDK's telemetry as /eal/lcore/usage, which
 * programs of DPDK before 23.03 lack. Counted only where the program's telemetry is on.
 */
#ifndef UNIS_LCORE_USAGE_H
#define UNIS_LCORE_USAGE_H

#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_cycles.h>
#include <stdbool.h>
#include <stdint.h>

/* In the environment of a program whose telemetry is on. */
#define UNIS_LCORE_USAGE_VARIABLE "UNIS_LCORE_USAGE"

/* Set while cycles are counted. */
extern bool lcore_usage_on;

struct lcore_usage {
  uint64_t began; /* of the first burst; TSC */
  uint64_t last;  /* of the burst that brought packets last; 0: the last one brought none */
  uint64_t busy;  /* cycles; read by the telemetry's thread */
} __rte_cache_aligned;

/* Of the calling thread; NULL: it is no lcore. */
struct lcore_usage *lcore_usage_here(void);

/* Registers the command, unless DPDK has it. */
void lcore_usage_create(void);

/* Where a burst begins, ... */
static inline void lcore_usage_begin(void) {
  struct lcore_usage *here;
  uint64_t now;

  if (likely(!lcore_usage_on)) return;
  here = lcore_usage_here();
  if (here == NULL) return;
  now = rte_rdtsc();
  if (here->began == 0) __atomic_store_n(&here->began, now, __ATOMIC_RELAXED);
  if (here->last != 0)
    __atomic_store_n(&here->busy, here->busy + now - here->last, __ATOMIC_RELAXED);
  here->last = 0;
}

/* ... and where it ends, with how many packets. */
static inline void lcore_usage_end(uint16_t packets) {
  struct lcore_usage *here;

  if (likely(!lcore_usage_on) || packets == 0) return;
  here = lcore_usage_here();
  if (here != NULL) here->last = rte_rdtsc();
}

#endif
