// What a recording is made of, and what is left out of it. Plain C, for the recorder too, which has
// no C library: see recording.h for the format.
#pragma once

#define UNIS_RECORDING_MAGIC "UNISREF1"

enum {
  kUnisLineBits = 6,
  kUnisFilterSets = 64,
};

enum unis_record { kUnisLoad = 0, kUnisStore = 1, kUnisArrival = 2, kUnisBurstEnd = 3 };

// A cache with one way. What it hits, every cache with LRU replacement and a multiple of its sets
// would hit without a change of its order (Puzak, 1985): such a line is its set's latest. At first
// all zero; line 0, of the null page, is never used.
typedef struct {
  unsigned long long line[kUnisFilterSets];
  unsigned char dirty[kUnisFilterSets];
} unis_filter;

// Takes a load or store; returns whether it may be left out.
static inline int unis_filter_take(unis_filter* filter, unsigned long long line, int store) {
  const unsigned set = (unsigned)(line % kUnisFilterSets);
  const int latest = filter->line[set] == line;
  if (latest && (filter->dirty[set] || !store)) return 1;
  filter->dirty[set] = (unsigned char)(store || (latest && filter->dirty[set]));
  filter->line[set] = line;
  return 0;
}

// Somebody else has written it behind the core's back.
static inline void unis_filter_forget(unis_filter* filter, unsigned long long line) {
  const unsigned set = (unsigned)(line % kUnisFilterSets);
  if (filter->line[set] == line) filter->line[set] = 0;
}
