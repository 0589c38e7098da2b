/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How a burst is sampled, for the plug-in and the engine: see passages_shm.h. A number of steps
 * that grows with the burst alone; no system call.
 */
#ifndef UNIS_SAMPLING_H
#define UNIS_SAMPLING_H

#include <rte_cycles.h>
#include <rte_mbuf.h>
#include <stdint.h>
#include <string.h>

#include "passages_shm.h"

/* Of one burst; where more periods begin in it, the rest is sampled in the next. */
#define UNIS_SAMPLES_MOST 16

/* What is known of one place: a port or chain in one direction. For one thread; zeros at first. */
struct unis_sampler {
  uint64_t origin; /* that `next` is of */
  uint64_t next;   /* beginning of the first period of which no packet was noted */
};

struct unis_samples {
  uint32_t count;
  struct {
    uint64_t stamp;
    uint64_t next; /* period, after the packet */
    uint32_t at;   /* in the burst */
  } of[UNIS_SAMPLES_MOST];
};

/* 0: it has none. */
static inline uint64_t unis_stamp_of(const struct rte_mbuf *packet, uint64_t mark) {
  uint64_t payload[2];

  if (packet->data_len < UNIS_PASSAGES_MARK_AT + sizeof(payload)) return 0;
  memcpy(payload, rte_pktmbuf_mtod_offset(packet, const char *, UNIS_PASSAGES_MARK_AT),
         sizeof(payload));
  return payload[0] == mark ? payload[1] : 0;
}

/* Whether the reader is gone at `now` (TSC), without a last word: then nobody looks any more. */
static inline int unis_reader_is_gone(struct unis_passages *shm, uint64_t now) {
  if (__builtin_expect(now <= __atomic_load_n(&shm->until, __ATOMIC_RELAXED), 1)) return 0;
  __atomic_store_n(&shm->looks, 0, __ATOMIC_RELAXED);
  return 1;
}

/* Beginning of the first period after `stamp`; never, if that is past all time. */
static inline uint64_t unis_next_period(uint64_t origin, uint64_t period, uint64_t stamp) {
  uint64_t next = origin + ((stamp - origin) / period + 1) * period;

  return next > stamp ? next : UINT64_MAX;
}

/* From `first` on, the first packet whose stamp is `since` or later; `last` is one. Stamps grow, so
 * few packets are looked at: their memory may be cold.
 */
static inline uint32_t unis_first_since(struct rte_mbuf *const *packets, uint32_t first,
                                        uint32_t last, uint64_t since, uint64_t mark) {
  while (first < last) {
    const uint32_t middle = first + (last - first) / 2;
    uint32_t at = middle;
    uint64_t stamp;

    while ((stamp = unis_stamp_of(packets[at], mark)) == 0 && at > first) at--;
    if (stamp != 0 && stamp >= since)
      last = at;
    else
      first = middle + 1;
  }
  return last;
}

/* Looks for the first packet of each period in the burst. At `now` (TSC), which is after the burst
 * was received or before it is sent, no packet has a later stamp: so most bursts are not looked at.
 */
static inline void unis_sample(const struct unis_passages *shm, struct unis_sampler *sampler,
                               uint64_t now, struct rte_mbuf *const *packets, uint32_t count,
                               struct unis_samples *samples) {
  const uint64_t origin = __atomic_load_n(&shm->origin, __ATOMIC_ACQUIRE);
  const uint64_t mark = __atomic_load_n(&shm->mark, __ATOMIC_RELAXED);
  uint64_t last = 0, next, period, stamp;
  uint32_t i;

  samples->count = 0;
  if (__builtin_expect(sampler->origin != origin, 0)) sampler->origin = sampler->next = origin;
  next = sampler->next;
  if (__builtin_expect(now < next, 1)) return;
  while (count > 0 && (last = unis_stamp_of(packets[count - 1], mark)) == 0) count--;
  if (__builtin_expect(last < next || count == 0, 1)) return;
  period = __atomic_load_n(&shm->period, __ATOMIC_RELAXED);
  if (period == 0) period = 1;
  for (i = 0; i < count && last >= next && samples->count < UNIS_SAMPLES_MOST; i++) {
    i = unis_first_since(packets, i, count - 1, next, mark);
    stamp = unis_stamp_of(packets[i], mark);
    next = unis_next_period(origin, period, stamp);
    samples->of[samples->count].stamp = stamp;
    samples->of[samples->count].next = next;
    samples->of[samples->count++].at = i;
  }
}

static inline void unis_store_passage(struct unis_passage *to, const struct unis_passage *burst,
                                      uint64_t stamp) {
  __atomic_store_n(&to->stamp, stamp, __ATOMIC_RELAXED);
  __atomic_store_n(&to->begin, burst->begin, __ATOMIC_RELAXED);
  __atomic_store_n(&to->end, burst->end, __ATOMIC_RELAXED);
  __atomic_store_n(&to->kind, burst->kind, __ATOMIC_RELAXED);
  __atomic_store_n(&to->packets, burst->packets, __ATOMIC_RELAXED);
  __atomic_store_n(&to->port, burst->port, __ATOMIC_RELAXED);
  __atomic_store_n(&to->own, burst->own, __ATOMIC_RELAXED);
}

/* How long a packet was held up, as a passage has it. */
static inline uint16_t unis_own(uint64_t begin, uint64_t end) {
  return end - begin < UINT16_MAX ? (uint16_t)(end - begin) : UINT16_MAX;
}

/* A period has begun, and its packet comes soon: its note shall not wait for memory. */
static inline void unis_prepare_note(struct unis_passage_log *log,
                                     const struct unis_sampler *sampler, uint64_t now) {
  const uint64_t written = __atomic_load_n(&log->written, __ATOMIC_RELAXED);

  if (__builtin_expect(now >= sampler->next, 0))
    __builtin_prefetch(&log->passages[written % UNIS_PASSAGES_KEPT], 1);
}

/* Notes those of the samples that are among the first `burst->packets`. The others may come again.
 * A received packet is held up until it is noted.
 */
static inline void unis_note(struct unis_passage_log *log, struct unis_sampler *sampler,
                             const struct unis_samples *samples, const struct unis_passage *burst) {
  uint64_t written = __atomic_load_n(&log->written, __ATOMIC_RELAXED);
  uint32_t i;

  for (i = 0; i < samples->count && samples->of[i].at < burst->packets; i++) {
    struct unis_passage *to = &log->passages[written % UNIS_PASSAGES_KEPT];

    unis_store_passage(to, burst, samples->of[i].stamp);
    if (burst->kind == UNIS_RECEIVED)
      __atomic_store_n(&to->own, unis_own(burst->end, rte_rdtsc()), __ATOMIC_RELAXED);
    sampler->next = samples->of[i].next;
    __atomic_store_n(&log->written, ++written, __ATOMIC_RELEASE);
  }
}

/* What both cost, and nothing else. */
static inline void unis_sample_in_vain(const struct unis_passages *shm,
                                       const struct unis_sampler *sampler, uint64_t now,
                                       struct rte_mbuf *const *packets, uint32_t count) {
  struct unis_sampler copy = *sampler;
  struct unis_samples samples;

  unis_sample(shm, &copy, now, packets, count, &samples);
  __asm__ volatile("" : : "r"(&copy), "r"(&samples) : "memory");
}

/* Half of the log away, so that it misses the caches like the note itself. */
static inline void unis_note_in_vain(struct unis_passage_log *log,
                                     const struct unis_samples *samples,
                                     const struct unis_passage *burst) {
  uint64_t place = __atomic_load_n(&log->written, __ATOMIC_RELAXED) + UNIS_PASSAGES_KEPT / 2;
  uint32_t i;

  for (i = 0; i < samples->count && samples->of[i].at < burst->packets; i++)
    unis_store_passage(&log->passages[place++ % UNIS_PASSAGES_KEPT], burst, samples->of[i].stamp);
}

#endif
