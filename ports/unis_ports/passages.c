/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See passages.h and passages_shm.h.
 */
#include "passages.h"

#include <rte_cycles.h>
#include <rte_ethdev.h>

#include "sampling.h"
#include "shared_file.h"

/* What a thread knows. */
struct passing {
  struct unis_passage_log *log; /* NULL: it has sampled nothing yet, or all places are taken */
  uint32_t asked;               /* whether it has looked for a place */
  struct unis_sampler received[RTE_MAX_ETHPORTS], sent[RTE_MAX_ETHPORTS];
};

static const uint32_t never;
const uint32_t *passages_looks = &never;
static struct unis_passages *passages;
static __thread struct passing passing;

/* NULL: it has no place. */
static inline struct passing *passing_of_thread(void) {
  struct passing *thread = &passing;

  if (unlikely(!thread->asked)) {
    thread->asked = 1;
    thread->log = unis_find_place(passages->logs, UNIS_PASSAGES_THREADS, sizeof(passages->logs[0]));
  }
  return likely(thread->log != NULL) ? thread : NULL;
}

/* Everything is also done for its cost alone. */
static inline bool looks_twice(void) {
  return __atomic_load_n(passages_looks, __ATOMIC_RELAXED) == 2;
}

uint16_t passages_receive_looking(uint16_t port, eth_rx_burst_t burst, void *queue,
                                  struct rte_mbuf **bufs, uint16_t nb_bufs) {
  const bool twice = looks_twice();
  struct unis_passage passage = {.kind = UNIS_RECEIVED, .port = port};
  struct unis_samples samples;
  struct passing *thread;
  uint16_t n;

  if (unlikely(twice)) rte_rdtsc();
  passage.begin = rte_rdtsc();
  n = burst(queue, bufs, nb_bufs);
  if (n == 0 || unis_reader_is_gone(passages, passage.begin)) return n;
  passage.end = rte_rdtsc();
  if (unlikely(twice)) rte_rdtsc();
  thread = passing_of_thread();
  if (unlikely(thread == NULL)) return n;
  passage.packets = n;
  if (unlikely(twice)) unis_sample_in_vain(passages, &thread->received[port], passage.end, bufs, n);
  unis_sample(passages, &thread->received[port], passage.end, bufs, n, &samples);
  if (likely(samples.count == 0)) {
    unis_prepare_note(thread->log, &thread->received[port], passage.end);
    return n;
  }
  if (unlikely(twice)) unis_note_in_vain(thread->log, &samples, &passage);
  unis_note(thread->log, &thread->received[port], &samples, &passage);
  return n;
}

/* The driver may free the packets that it takes. */
uint16_t passages_send_looking(uint16_t port, eth_tx_burst_t burst, void *queue,
                               struct rte_mbuf **bufs, uint16_t nb_bufs) {
  const bool twice = looks_twice();
  struct passing *thread = nb_bufs == 0 ? NULL : passing_of_thread();
  struct unis_passage passage = {.kind = UNIS_SENT, .port = port};
  struct unis_samples samples;
  uint64_t now;

  if (unlikely(thread == NULL)) return burst(queue, bufs, nb_bufs);
  now = rte_rdtsc();
  if (unlikely(twice)) unis_sample_in_vain(passages, &thread->sent[port], now, bufs, nb_bufs);
  unis_sample(passages, &thread->sent[port], now, bufs, nb_bufs, &samples);
  if (likely(samples.count == 0)) return burst(queue, bufs, nb_bufs);
  if (unlikely(twice)) rte_rdtsc();
  passage.begin = rte_rdtsc();
  passage.own = unis_own(now, passage.begin);
  passage.packets = burst(queue, bufs, nb_bufs);
  passage.end = rte_rdtsc();
  if (unlikely(twice)) rte_rdtsc();
  unis_note(thread->log, &thread->sent[port], &samples, &passage);
  if (unlikely(twice)) unis_note_in_vain(thread->log, &samples, &passage);
  return passage.packets;
}

int passages_create(void) {
  void *memory = NULL;
  int fd = unis_shared_file(UNIS_PASSAGES_FILE, sizeof(struct unis_passages), &memory);

  if (fd < 0) return fd;
  passages = memory;
  passages->version = UNIS_PASSAGES_VERSION;
  passages_looks = &passages->looks;
  return 0; /* the descriptor stays open: by it the reader finds the file */
}
