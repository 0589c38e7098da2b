/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An anonymous file in memory that a process shares with whoever finds it among its open files, and
 * places in it, one for each thread.
 */
#ifndef UNIS_SHARED_FILE_H
#define UNIS_SHARED_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A file of zeros, sealed against another size, and where it is mapped, in *memory. Takes no more
 * memory than is touched. Returns its descriptor, by which it is found as long as that is open, or
 * a negative error number. */
static inline int unis_shared_file(const char *name, size_t bytes, void **memory) {
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  int err;

  if (fd < 0) return -errno;
  if (ftruncate(fd, (off_t)bytes) == 0 &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0) {
    *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*memory != MAP_FAILED) return fd;
  }
  err = -errno;
  close(fd);
  return err;
}

/* Nobody's, or one of a thread that is gone, as of one with our number before us. */
static inline bool unis_take_place(int32_t *place, int32_t tid, bool of_dead) {
  int32_t owner = __atomic_load_n(place, __ATOMIC_RELAXED);

  if (owner != 0 && owner != tid &&
      !(of_dead && syscall(SYS_tgkill, getpid(), owner, 0) != 0 && errno == ESRCH))
    return false;
  return __atomic_compare_exchange_n(place, &owner, tid, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* This thread's of `count` places of `bytes` each, that begin with the TID of whose they are, 0 of
 * nobody. NULL: all are taken. Leaves errno as it is. */
static inline void *unis_find_place(void *places, size_t count, size_t bytes) {
  const int32_t tid = (int32_t)syscall(SYS_gettid);
  const int before = errno;
  void *found = NULL;
  size_t i;

  for (i = 0; i < 2 * count && found == NULL; i++) {
    int32_t *place = (int32_t *)((char *)places + i % count * bytes);

    if (unis_take_place(place, tid, i >= count)) found = place;
  }
  errno = before;
  return found;
}

#endif
