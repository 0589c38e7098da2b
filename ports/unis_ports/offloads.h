/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive offloads that a driver lacks, for programs that insist on them and end without.
 *
 * The checks of checksums: a port that has them may say of every packet that it knows nothing
 * (RTE_MBUF_F_RX_IP_CKSUM_UNKNOWN, RTE_MBUF_F_RX_L4_CKSUM_UNKNOWN), as drivers without them do.
 * Not unasked: a program that looks for them may leave a check of its own out.
 *
 * Long frames: a port that takes them need not ever get one.
 */
#ifndef UNIS_OFFLOADS_H
#define UNIS_OFFLOADS_H

#include <stdint.h>

/* Of the environment, what is asked for: names with commas between. Known: rx-checksum,
 * jumbo-frames. */
#define UNIS_OFFLOADS_VARIABLE "UNIS_OFFLOADS"

/* Reads it, before any port is there. 0, or -EINVAL where a name is unknown. */
int offloads_read(void);

/* A port is there: from now on it offers what is asked for. */
void offloads_take_port(uint16_t port);

#endif
