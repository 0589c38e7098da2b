// Where the tool finds a packet in an mbuf: DPDK's ABI 23 (22.11), without its headers, which know
// a C library that Valgrind's core has not. mbuf_layout_test.cc holds it against DPDK's own.
#pragma once

enum {
  kMbufBufferAddressAt = 0,  // 8 bytes
  kMbufDataOffsetAt = 16,    // 2 bytes, from the buffer's address
  kMbufDataLengthAt = 40,    // 2 bytes
  kMbufBufferLengthAt = 54,  // 2 bytes
  kMbufBytes = 128,
};

static inline unsigned long MbufBufferAddress(unsigned long mbuf) {
  return *(const unsigned long*)(mbuf + kMbufBufferAddressAt);
}
static inline unsigned short MbufDataOffset(unsigned long mbuf) {
  return *(const unsigned short*)(mbuf + kMbufDataOffsetAt);
}
static inline unsigned short MbufDataLength(unsigned long mbuf) {
  return *(const unsigned short*)(mbuf + kMbufDataLengthAt);
}
static inline unsigned short MbufBufferLength(unsigned long mbuf) {
  return *(const unsigned short*)(mbuf + kMbufBufferLengthAt);
}
