/* What a secondary process of the group leaves behind when it dies: DPDK keeps its ports in shared
 * memory, 32 in all, and their names, so that none that comes after could have them. */
#ifndef UNIS_DEAD_PORT_H
#define UNIS_DEAD_PORT_H

#ifdef __cplusplus
extern "C" {
#endif

/* Frees the port of that name, of a process that is gone for certain. In the primary process.
 * Nothing where there is none. */
void unis_release_dead_port(const char *name);

#ifdef __cplusplus
}
#endif

#endif
