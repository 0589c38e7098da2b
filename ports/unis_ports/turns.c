/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See turns.h and turns_shm.h.
 */
#include "turns.h"

#include <errno.h>
#include <ethdev_driver.h>
#include <linux/futex.h>
#include <rte_branch_prediction.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lcore_usage.h"
#include "next_hops.h"
#include "passages.h"
#include "port_ops.h"
#include "shared_file.h"
#include "turns_shm.h"

struct taken_port {
  /* The driver's. */
  eth_dev_start_t start;
  eth_rx_burst_t receive;
  eth_tx_burst_t send;
};

/* What a thread knows of its turn. */
struct turn {
  struct unis_turn *shm; /* NULL: it has not polled yet, or all places are taken */
  uint32_t asked;        /* whether it has looked for a place */
  uint32_t taken;        /* packets */
  uint32_t stale;        /* a word to rest that was not renewed */
  const void *only;      /* the queue that it polled first; or NULL */
  uint32_t several;      /* it has polled another since */
  const void *empty;     /* the first queue that was found empty since packets came; or NULL */
  uint32_t empty_polls;  /* since then */
  const void *short_of;  /* the first queue that gave less than was asked for since one gave all */
  const void *last;      /* the queue that it polled last */
  uint32_t grant;        /* the last one that was seen */
  uint32_t spent;        /* packets of it */
  uint64_t spent_at;     /* when that was all of it (TSC); 0: it is not */
};

/* Of queues that a thread polls in turn; so often in vain, and it does not poll the first of them
 * any more. */
#define MOST_QUEUES 1024

static struct unis_turns *turns;
static struct taken_port ports[RTE_MAX_ETHPORTS];
static uint64_t counted; /* a bit for each port */
static __thread struct turn self;

static inline int is_counted(uint16_t port) { return unlikely(counted >> port & 1); }

/* Of one writer: a counted port has one queue each way, and DPDK lets one thread at a time use it.
 */
static void count_add(uint64_t *count, uint64_t more) {
  __atomic_store_n(count, *count + more, __ATOMIC_RELEASE);
}

static inline uint16_t port_receive(uint16_t port, void *queue, struct rte_mbuf **bufs,
                                    uint16_t nb_bufs) {
  uint16_t n = passages_receive(port, ports[port].receive, queue, bufs, nb_bufs);

  if (is_counted(port) && n > 0) count_add(&turns->ports[port].received, n);
  lcore_usage_end(n);
  return n;
}

static uint64_t bytes_of(struct rte_mbuf **bufs, uint16_t n) {
  uint64_t bytes = 0;

  while (n > 0) bytes += bufs[--n]->pkt_len;
  return bytes;
}

/* What the driver took may be freed already; the rest is still the program's. */
static uint16_t send_counted(uint16_t port, void *queue, struct rte_mbuf **bufs, uint16_t nb_bufs) {
  uint64_t bytes = bytes_of(bufs, nb_bufs);
  uint16_t n = passages_send(port, ports[port].send, queue, bufs, nb_bufs);

  bytes -= bytes_of(bufs + n, nb_bufs - n);
  count_add(&turns->ports[port].sent_bytes, bytes);
  count_add(&turns->ports[port].sent, n);
  return n;
}

static void turn_begin(struct unis_turn *shm) {
  uint32_t next = shm->began + 1;

  __atomic_store_n(&shm->began_before, shm->began_at, __ATOMIC_RELAXED);
  __atomic_store_n(&shm->began_at, rte_rdtsc(), __ATOMIC_RELEASE);
  /* 0 says nothing in `leave`. */
  __atomic_store_n(&shm->began, next == 0 ? 1 : next, __ATOMIC_RELEASE);
}

static void turn_find_place(struct turn *turn) {
  struct unis_turn *place =
      unis_find_place(turns->threads, UNIS_TURNS_THREADS, sizeof(turns->threads[0]));

  turn->asked = 1;
  if (place == NULL) return;
  __atomic_store_n(&place->leave, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&place->rest, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&place->grant, 0, __ATOMIC_RELAXED);
  /* The engine may still look at the one before: turns only grow. */
  __atomic_store_n(&place->passed, place->began, __ATOMIC_RELEASE);
  turn_begin(place);
  turn->shm = place;
}

static void turn_end(struct turn *turn) {
  struct unis_turn *shm = turn->shm;

  /* Before the turn is over, for who sees that. */
  if (turn->taken > 0) __atomic_store_n(&shm->taken, shm->taken + turn->taken, __ATOMIC_RELAXED);
  turn->taken = 0;
  turn->empty = NULL;
  turn->empty_polls = 0;
  turn->short_of = NULL;
  __atomic_store_n(&shm->passed, shm->began, __ATOMIC_RELEASE);
}

static void turn_pass_on(struct turn *turn) {
  turn_end(turn);
  sched_yield();
  turn_begin(turn->shm);
}

/* What the program finds in errno is its own. */
static void turn_rest(struct turn *turn, uint32_t word) {
  const struct timespec longest = {.tv_nsec = UNIS_REST_MS * 1000000L};
  uint32_t *rest = &turn->shm->rest;
  int before = errno;

  turn_end(turn);
  if (syscall(SYS_futex, rest, FUTEX_WAIT, word, &longest, NULL, 0) != 0 && errno == ETIMEDOUT &&
      __atomic_load_n(rest, __ATOMIC_RELAXED) == word)
    turn->stale = word;
  turn_begin(turn->shm);
  errno = before;
}

/* All that this thread polls was empty when it looked last: it has come round to where it began, or
 * there is nothing else. */
static inline bool turn_is_dry(struct turn *turn, const void *queue) {
  if (!turn->several || turn->empty == queue) return true;
  if (turn->empty == NULL) turn->empty = queue;
  return ++turn->empty_polls > MOST_QUEUES;
}

/* It has emptied all that it polls, and comes round. Of the few packets that have come meanwhile it
 * would make many small bursts, and find some each time. */
static inline bool turn_is_drained(const struct turn *turn, const void *queue) {
  return turn->short_of == queue && (!turn->several || turn->last != queue);
}

/* What the engine has granted is taken. Nobody waits for ever for an engine that is gone. */
static inline bool grant_is_spent(struct turn *turn) {
  uint32_t grant = __atomic_load_n(&turn->shm->grant, __ATOMIC_RELAXED);
  uint64_t now;

  if (unlikely(grant != turn->grant)) {
    turn->grant = grant;
    turn->spent = 0;
    turn->spent_at = 0;
  }
  if (likely(grant == 0 || turn->spent < (grant & UNIS_GRANT_MOST))) return false;
  now = rte_rdtsc();
  if (turn->spent_at == 0) turn->spent_at = now;
  return now - turn->spent_at < rte_get_tsc_hz() / 1000 * UNIS_GRANT_MS;
}

static inline uint16_t turns_rx(uint16_t port, void *queue, struct rte_mbuf **bufs,
                                uint16_t nb_bufs) {
  uint32_t quota = __atomic_load_n(&turns->quota, __ATOMIC_RELAXED);
  struct turn *turn = &self;
  uint32_t rest;
  uint16_t n;

  lcore_usage_begin();
  if (unlikely(turn->only != queue) && !turn->several) {
    turn->several = turn->only != NULL;
    turn->only = queue;
  }
  if (unlikely(!turn->asked)) turn_find_place(turn);
  if (unlikely(turn->shm == NULL)) return port_receive(port, queue, bufs, nb_bufs);
  rest = __atomic_load_n(&turn->shm->rest, __ATOMIC_RELAXED);
  if (quota == 0 && likely(rest == 0)) return port_receive(port, queue, bufs, nb_bufs);
  /* Here what was received last has been worked on and sent. */
  if (quota > 0 &&
      (turn->taken >= quota ||
       unlikely(__atomic_load_n(&turn->shm->leave, __ATOMIC_RELAXED) == turn->shm->began)))
    turn_pass_on(turn);
  if (quota > 0 && rest == 0 && unlikely(grant_is_spent(turn))) {
    turn_pass_on(turn);
    return 0;
  }
  if (rest != 0 && rest != turn->stale && turn_is_drained(turn, queue)) turn_rest(turn, rest);
  n = port_receive(port, queue, bufs, nb_bufs);
  if (n == nb_bufs)
    turn->short_of = NULL;
  else if (turn->short_of == NULL)
    turn->short_of = queue;
  turn->last = queue;
  if (n > 0) {
    turn->taken += n;
    turn->spent += n;
    turn->empty = NULL;
    turn->empty_polls = 0;
  } else if (turn_is_dry(turn, queue)) {
    if (rest != 0 && rest != turn->stale)
      turn_rest(turn, rest);
    else if (quota > 0)
      turn_pass_on(turn);
  }
  return n;
}

static inline uint16_t turns_tx(uint16_t port, void *queue, struct rte_mbuf **bufs,
                                uint16_t nb_bufs) {
  nb_bufs = next_hops_write(port, bufs, nb_bufs);
  if (is_counted(port)) return send_counted(port, queue, bufs, nb_bufs);
  return passages_send(port, ports[port].send, queue, bufs, nb_bufs);
}

/* A burst is told its queue and not its port: one function each. */
#define RX(port)                                                                           \
  static uint16_t turns_rx_##port(void *queue, struct rte_mbuf **bufs, uint16_t nb_bufs) { \
    return turns_rx(port, queue, bufs, nb_bufs);                                           \
  }
#define TX(port)                                                                           \
  static uint16_t turns_tx_##port(void *queue, struct rte_mbuf **bufs, uint16_t nb_bufs) { \
    return turns_tx(port, queue, bufs, nb_bufs);                                           \
  }
#define EACH(what)                                                                              \
  what(0) what(1) what(2) what(3) what(4) what(5) what(6) what(7) what(8) what(9) what(10)      \
      what(11) what(12) what(13) what(14) what(15) what(16) what(17) what(18) what(19) what(20) \
          what(21) what(22) what(23) what(24) what(25) what(26) what(27) what(28) what(29)      \
              what(30) what(31)
EACH(RX)
EACH(TX)
#define RX_NAME(port) turns_rx_##port,
#define TX_NAME(port) turns_tx_##port,
static const eth_rx_burst_t receives[] = {EACH(RX_NAME)};
static const eth_tx_burst_t sends[] = {EACH(TX_NAME)};

/* Drivers choose their bursts when they start, and ethdev copies them for those that call them
 * afterwards. */
static void port_wrap(struct rte_eth_dev *dev) {
  uint16_t port = dev->data->port_id;

  if (dev->rx_pkt_burst != receives[port]) {
    ports[port].receive = dev->rx_pkt_burst;
    dev->rx_pkt_burst = receives[port];
  }
  if (dev->tx_pkt_burst != sends[port]) {
    ports[port].send = dev->tx_pkt_burst;
    dev->tx_pkt_burst = sends[port];
  }
}

static int port_start(struct rte_eth_dev *dev) {
  int err = ports[dev->data->port_id].start(dev);

  if (err == 0) port_wrap(dev);
  next_hops_tell_missing(); /* programs start ports once all are there */
  return err;
}

void turns_take_port(uint16_t port) {
  struct rte_eth_dev *dev = &rte_eth_devices[port];
  struct eth_dev_ops *ops;

  if (turns == NULL || port >= RTE_DIM(receives)) return;
  ops = port_ops(port);
  if (ops == NULL || ops->dev_start == port_start) return;
  ports[port].start = ops->dev_start;
  ops->dev_start = port_start;
  /* In a secondary it may be used as it is, and ethdev has told those that call it already. */
  if (rte_eal_process_type() == RTE_PROC_SECONDARY && dev->rx_pkt_burst != NULL) {
    port_wrap(dev);
    rte_eth_fp_ops[port].rx_pkt_burst = receives[port];
    rte_eth_fp_ops[port].tx_pkt_burst = sends[port];
  }
}

static void read_counted(const char *numbers) {
  char *end;

  while (numbers != NULL && *numbers != 0) {
    unsigned long port = strtoul(numbers, &end, 10);

    if (end == numbers) return;
    if (port < UNIS_TURNS_PORTS) counted |= UINT64_C(1) << port;
    numbers = *end == ',' ? end + 1 : end;
  }
}

int turns_create(void) {
  void *memory = NULL;
  int fd = unis_shared_file(UNIS_TURNS_FILE, sizeof(struct unis_turns), &memory);

  if (fd < 0) return fd;
  read_counted(getenv(UNIS_COUNTED_VARIABLE));
  turns = memory;
  turns->version = UNIS_TURNS_VERSION;
  return 0; /* the descriptor stays open: by it the engine finds the file */
}
