/* SPDX-License-Identifier: BSD-3-Clause */
#include "queues.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <rte_byteorder.h>
#include <rte_ether.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <string.h>
#include <sys/socket.h>

#include "device.h"

#define TAG_BYTES 4                            /* of a VLAN tag */
#define ADDRESS_BYTES (2 * RTE_ETHER_ADDR_LEN) /* in front of it */
#define MOST_SEGMENTS 64                       /* of a packet that is sent */
#define MOST_WAITING 32                        /* sockets at which a thread waits at once */

/* Where the kernel writes what it knows of a frame. */
union control {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
};

struct rx_queue {
  struct queue_options options;
  struct queue_counters counters;
  struct rte_mempool *pool;
  int socket;
  uint16_t empty; /* packets[0] to packets[empty - 1] have no buffer; the others have */
  struct rte_mbuf *packets[QUEUE_MOST_BATCH];
  struct iovec vectors[QUEUE_MOST_BATCH];
  struct mmsghdr messages[QUEUE_MOST_BATCH];
  union control controls[QUEUE_MOST_BATCH];
};

struct tx_queue {
  struct queue_options options;
  struct queue_counters counters;
  int socket;
  uint16_t mtu;
  uint16_t at[QUEUE_MOST_BATCH]; /* of a message: the number of its packet in the burst */
  struct mmsghdr messages[QUEUE_MOST_BATCH];
  struct iovec vectors[QUEUE_MOST_BATCH + MOST_SEGMENTS];
};

static inline void counter_add(uint64_t *counter, uint64_t n) {
  __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

/* ------------------------------------------------------------------ waiting
 *
 * A thread that polls one queue waits in its receive call. One that polls several would then keep
 * packets of the second waiting while it waits at the first: it waits at all at once, when it has
 * found nothing at any of them. */

static unsigned int changes = 1; /* grows when a socket is made: those known may be closed */

static __thread struct {
  unsigned int changes;
  unsigned int count;
  unsigned int dry; /* bursts one after the other that found nothing */
  struct pollfd sockets[MOST_WAITING];
} waiting;

static void wait_know(int socket) {
  const unsigned int now = __atomic_load_n(&changes, __ATOMIC_ACQUIRE);
  unsigned int i;

  if (waiting.changes != now) {
    waiting.changes = now;
    waiting.count = waiting.dry = 0;
  }
  for (i = 0; i < waiting.count; i++)
    if (waiting.sockets[i].fd == socket) return;
  if (waiting.count == MOST_WAITING) return;
  waiting.sockets[waiting.count++] = (struct pollfd){.fd = socket, .events = POLLIN};
}

/* Flags of the receive call: whether it may block. */
static int wait_flags(const struct rx_queue *queue, int blocking) {
  if (!queue->options.waits) return MSG_DONTWAIT;
  wait_know(queue->socket);
  return waiting.count == 1 ? blocking : MSG_DONTWAIT;
}

static void wait_after(const struct rx_queue *queue, bool found) {
  if (!queue->options.waits || waiting.count == 1) return;
  waiting.dry = found ? 0 : waiting.dry + 1;
  if (waiting.dry < waiting.count) return;
  waiting.dry = 0;
  (void)poll(waiting.sockets, waiting.count, DEVICE_WAIT_MS);
}

/* ------------------------------------------------------------------ receiving */

static void provide_one(struct rx_queue *queue, uint16_t at, struct rte_mbuf *packet) {
  queue->packets[at] = packet;
  queue->vectors[at].iov_base = rte_pktmbuf_mtod(packet, void *);
}

/* All buffers that lack, or none. */
static bool refill(struct rx_queue *queue) {
  struct rte_mbuf *packets[QUEUE_MOST_BATCH];

  if (queue->empty == 0) return true;
  if (rte_pktmbuf_alloc_bulk(queue->pool, packets, queue->empty) != 0) return false;
  while (queue->empty > 0) {
    queue->empty--;
    provide_one(queue, queue->empty, packets[queue->empty]);
  }
  return true;
}

/* Buffers for `count` frames, behind queue->empty. Returns for how many there are some. */
static uint16_t provide(struct rx_queue *queue, uint16_t count) {
  if (count <= queue->options.batch - queue->empty || refill(queue)) return count;
  counter_add(&queue->counters.no_buffer, 1);
  while (queue->empty > 0 && queue->options.batch - queue->empty < count) {
    struct rte_mbuf *packet = rte_pktmbuf_alloc(queue->pool);

    if (packet == NULL) break;
    provide_one(queue, --queue->empty, packet);
  }
  return RTE_MIN(count, (uint16_t)(queue->options.batch - queue->empty));
}

/* The kernel takes a VLAN tag out of a frame and tells it beside. */
static void take_tag(const struct rx_queue *queue, struct msghdr *message,
                     struct rte_mbuf *packet) {
  const struct cmsghdr *header = CMSG_FIRSTHDR(message);
  struct tpacket_auxdata known;
  char *start = NULL;
  rte_be16_t tag[2];

  if (header == NULL || header->cmsg_level != SOL_PACKET || header->cmsg_type != PACKET_AUXDATA)
    return;
  memcpy(&known, CMSG_DATA(header), sizeof(known));
  if ((known.tp_status & TP_STATUS_VLAN_VALID) == 0) return;
  packet->vlan_tci = known.tp_vlan_tci;
  packet->ol_flags |= RTE_MBUF_F_RX_VLAN;
  tag[0] =
      rte_cpu_to_be_16((known.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0 ? known.tp_vlan_tpid
                                                                          : RTE_ETHER_TYPE_VLAN);
  if (!__atomic_load_n(&queue->options.strips, __ATOMIC_RELAXED) ||
      tag[0] != rte_cpu_to_be_16(RTE_ETHER_TYPE_VLAN))
    start = rte_pktmbuf_prepend(packet, TAG_BYTES);
  if (start == NULL) {
    packet->ol_flags |= RTE_MBUF_F_RX_VLAN_STRIPPED;
    return;
  }
  tag[1] = rte_cpu_to_be_16(known.tp_vlan_tci);
  memmove(start, start + TAG_BYTES, ADDRESS_BYTES);
  memcpy(start + ADDRESS_BYTES, tag, sizeof(tag));
}

/* Whether the frame is whole; else its buffer was freed. */
static bool finish(struct rx_queue *queue, uint16_t at, unsigned int bytes, bool cut) {
  struct rte_mbuf *packet = queue->packets[at];

  if (unlikely(cut || bytes < RTE_ETHER_HDR_LEN)) {
    counter_add(&queue->counters.errors, 1);
    rte_pktmbuf_free(packet);
    return false;
  }
  packet->data_len = (uint16_t)bytes;
  packet->pkt_len = bytes;
  packet->port = queue->options.port;
  return true;
}

/* A device that goes down says so once. */
static void receive_failed(struct rx_queue *queue) {
  if (errno != EAGAIN && errno != EINTR && errno != ENETDOWN)
    counter_add(&queue->counters.errors, 1);
}

static uint16_t receive_vector(struct rx_queue *queue, struct rte_mbuf **packets, uint16_t count) {
  struct mmsghdr *messages = &queue->messages[queue->empty];
  const int flags = wait_flags(queue, MSG_WAITFORONE);
  const int got = recvmmsg(queue->socket, messages, count, flags, NULL);
  uint64_t bytes = 0;
  uint16_t n = 0;
  int i;

  if (got < 0) receive_failed(queue);
  for (i = 0; i < got; i++, queue->empty++) {
    struct msghdr *message = &messages[i].msg_hdr;
    struct rte_mbuf *packet = queue->packets[queue->empty];

    if (finish(queue, queue->empty, messages[i].msg_len, (message->msg_flags & MSG_TRUNC) != 0)) {
      take_tag(queue, message, packet);
      bytes += packet->pkt_len;
      packets[n++] = packet;
    }
    message->msg_controllen = sizeof(union control); /* the kernel wrote how much it used */
  }
  counter_add(&queue->counters.bytes, bytes);
  return n;
}

static uint16_t receive_singly(struct rx_queue *queue, struct rte_mbuf **packets, uint16_t count) {
  int flags = wait_flags(queue, 0);
  const uint16_t end = queue->empty + count;
  uint64_t bytes = 0;
  uint16_t n = 0;

  for (; queue->empty < end; queue->empty++, flags = MSG_DONTWAIT) {
    const struct iovec *vector = &queue->vectors[queue->empty];
    struct rte_mbuf *packet = queue->packets[queue->empty];
    const ssize_t got = recv(queue->socket, vector->iov_base, vector->iov_len, flags | MSG_TRUNC);

    if (got < 0) {
      receive_failed(queue);
      break;
    }
    if (!finish(queue, queue->empty, (unsigned int)got, (size_t)got > vector->iov_len)) continue;
    bytes += packet->pkt_len;
    packets[n++] = packet;
  }
  counter_add(&queue->counters.bytes, bytes);
  return n;
}

uint16_t rx_burst(void *at, struct rte_mbuf **packets, uint16_t count) {
  struct rx_queue *queue = at;
  uint16_t n;

  count = provide(queue, RTE_MIN(count, queue->options.batch));
  if (unlikely(count == 0)) return 0;
  n = queue->options.single ? receive_singly(queue, packets, count)
                            : receive_vector(queue, packets, count);
  /* Between bursts it holds as many as ever: whoever counts its pool's can tell them from packets.
   */
  (void)refill(queue);
  wait_after(queue, n > 0);
  counter_add(&queue->counters.packets, n);
  return n;
}

struct rx_queue *rx_queue_create(const struct queue_options *options, struct rte_mempool *pool,
                                 unsigned int node) {
  struct rx_queue *queue = rte_zmalloc_socket("net_mmsg rx", sizeof(*queue), 0, (int)node);
  uint16_t i;

  if (queue == NULL) return NULL;
  queue->options = *options;
  queue->pool = pool;
  queue->socket = -1;
  queue->empty = options->batch;
  for (i = 0; i < QUEUE_MOST_BATCH; i++) {
    struct msghdr *message = &queue->messages[i].msg_hdr;

    queue->vectors[i].iov_len = rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM;
    message->msg_iov = &queue->vectors[i];
    message->msg_iovlen = 1;
    message->msg_control = &queue->controls[i];
    message->msg_controllen = sizeof(union control);
  }
  return queue;
}

void rx_queue_free(struct rx_queue *queue) {
  uint16_t i;

  if (queue == NULL) return;
  for (i = queue->empty; i < queue->options.batch; i++) rte_pktmbuf_free(queue->packets[i]);
  rte_free(queue);
}

struct rte_mempool *rx_queue_pool(const struct rx_queue *queue) {
  return queue->pool;
}

void rx_queue_use(struct rx_queue *queue, int socket) {
  queue->socket = socket;
  if (socket >= 0) (void)refill(queue);
  __atomic_add_fetch(&changes, 1, __ATOMIC_RELEASE);
}

void rx_queue_set_strips(struct rx_queue *queue, bool strips) {
  __atomic_store_n(&queue->options.strips, strips, __ATOMIC_RELAXED);
}

struct queue_counters rx_queue_counters(const struct rx_queue *queue) {
  return queue->counters;
}

/* ------------------------------------------------------------------ sending */

/* The kernel's rule: a tag of 802.1Q does not count. */
static bool fits(const struct tx_queue *queue, const struct rte_mbuf *packet) {
  const uint32_t most = RTE_ETHER_HDR_LEN + __atomic_load_n(&queue->mtu, __ATOMIC_RELAXED);

  if (likely(packet->pkt_len <= most)) return packet->pkt_len >= RTE_ETHER_HDR_LEN;
  return packet->pkt_len <= most + TAG_BYTES && packet->data_len >= RTE_ETHER_HDR_LEN &&
         rte_pktmbuf_mtod(packet, const struct rte_ether_hdr *)->ether_type ==
             rte_cpu_to_be_16(RTE_ETHER_TYPE_VLAN);
}

/* Messages of the first packets; those that cannot be sent have none. Returns how many packets were
 * looked at. */
static uint16_t describe(struct tx_queue *queue, struct rte_mbuf **packets, uint16_t count,
                         uint16_t *messages) {
  const uint16_t most = queue->options.batch + MOST_SEGMENTS;
  uint16_t vectors = 0, i;

  *messages = 0;
  for (i = 0; i < count; i++) {
    const struct rte_mbuf *segment = packets[i];
    struct msghdr *message = &queue->messages[*messages].msg_hdr;

    if (!fits(queue, segment) || segment->nb_segs > MOST_SEGMENTS) continue;
    if (vectors + segment->nb_segs > most) break;
    message->msg_iov = &queue->vectors[vectors];
    message->msg_iovlen = segment->nb_segs;
    for (; segment != NULL; segment = segment->next)
      queue->vectors[vectors++] = (struct iovec){.iov_base = rte_pktmbuf_mtod(segment, void *),
                                                 .iov_len = segment->data_len};
    queue->at[(*messages)++] = i;
  }
  return i;
}

static int send_singly(struct tx_queue *queue, uint16_t count) {
  int sent = 0;

  for (; sent < count; sent++) {
    const struct msghdr *message = &queue->messages[sent].msg_hdr;
    const struct iovec *vector = message->msg_iov;
    const ssize_t err = message->msg_iovlen == 1
                            ? send(queue->socket, vector->iov_base, vector->iov_len, MSG_DONTWAIT)
                            : sendmsg(queue->socket, message, MSG_DONTWAIT);

    if (err < 0) return sent == 0 ? -1 : sent;
  }
  return sent;
}

/* Of the packets of a burst, how many were sent or never will be. A frame that the kernel refuses
 * for itself must not keep those behind it waiting. */
static uint16_t taken(struct tx_queue *queue, int sent, uint16_t messages, uint16_t looked_at) {
  if (sent == messages) return looked_at;
  if (sent >= 0) return queue->at[sent];
  return errno == EMSGSIZE || errno == EINVAL ? queue->at[0] + 1 : queue->at[0];
}

/* By one system call, or by one a frame. Returns how many are done with; `all`: each of those that
 * it looked at is. */
static uint16_t send_batch(struct tx_queue *queue, struct rte_mbuf **packets, uint16_t count,
                           bool *all) {
  uint64_t bytes = 0;
  uint16_t messages, n, i;
  int sent = 0;

  count = describe(queue, packets, RTE_MIN(count, queue->options.batch), &messages);
  if (messages > 0)
    sent = queue->options.single ? send_singly(queue, messages)
                                 : sendmmsg(queue->socket, queue->messages, messages, MSG_DONTWAIT);
  n = taken(queue, sent, messages, count);
  *all = sent == messages;
  sent = RTE_MAX(sent, 0);
  for (i = 0; i < sent; i++) bytes += packets[queue->at[i]]->pkt_len;
  counter_add(&queue->counters.packets, (uint64_t)sent);
  counter_add(&queue->counters.bytes, bytes);
  if (n > sent) counter_add(&queue->counters.errors, n - sent);
  rte_pktmbuf_free_bulk(packets, n);
  return n;
}

/* Many programs drop what a burst left: one that is longer than a batch is several. */
uint16_t tx_burst(void *at, struct rte_mbuf **packets, uint16_t count) {
  bool all = true;
  uint16_t n = 0;

  while (all && n < count) n += send_batch(at, packets + n, count - n, &all);
  return n;
}

struct tx_queue *tx_queue_create(const struct queue_options *options, unsigned int node) {
  struct tx_queue *queue = rte_zmalloc_socket("net_mmsg tx", sizeof(*queue), 0, (int)node);

  if (queue == NULL) return NULL;
  queue->options = *options;
  queue->socket = -1;
  return queue;
}

void tx_queue_free(struct tx_queue *queue) { rte_free(queue); }

void tx_queue_use(struct tx_queue *queue, int socket) { queue->socket = socket; }

void tx_queue_set_mtu(struct tx_queue *queue, uint16_t mtu) {
  __atomic_store_n(&queue->mtu, mtu, __ATOMIC_RELAXED);
}

struct queue_counters tx_queue_counters(const struct tx_queue *queue) {
  return queue->counters;
}
