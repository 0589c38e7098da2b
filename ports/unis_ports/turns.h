/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The hand-over of the CPU, where a program polls. No argument of the program's is looked at.
 */
#ifndef UNIS_TURNS_H
#define UNIS_TURNS_H

#include <stdint.h>

/* Numbers of the ports whose packets are counted, with commas. They have one queue each way. */
#define UNIS_COUNTED_VARIABLE "UNIS_COUNTED"

/* Once, before any port is there. 0, or a negative error number: then nothing is ever passed on,
 * and nothing counted. */
int turns_create(void);

/* A port is there, perhaps started: from now on, and from each of its starts on, its bursts are
 * ours. */
void turns_take_port(uint16_t port);

#endif
