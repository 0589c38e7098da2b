// A program for unis-refs to record, without DPDK: its packets are laid out as mbuf_layout.h says.
// subject_for_test inside|outside|larger: where the data of the second packet lies.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "models/recorder/mbuf_layout.h"

namespace {

constexpr std::size_t kBuffer = 1024, kOffset = 128, kLength = 100;

struct alignas(64) Memory {
  std::uint8_t mbuf[kMbufBytes];
  std::uint8_t buffer[2 * kBuffer];
};

// At its place in the mbuf.
template <class Value>
void Set(Memory& memory, int at, Value value) {
  std::memcpy(memory.mbuf + at, &value, sizeof value);
}

void Lay(Memory& memory, std::uint8_t* buffer, std::size_t bytes) {
  Set(memory, kMbufBufferAddressAt, reinterpret_cast<std::uintptr_t>(buffer));
  Set(memory, kMbufDataOffsetAt, static_cast<std::uint16_t>(kOffset));
  Set(memory, kMbufDataLengthAt, static_cast<std::uint16_t>(kLength));
  Set(memory, kMbufBufferLengthAt, static_cast<std::uint16_t>(bytes));
}

Memory first, second;
alignas(64) std::uint8_t elsewhere[1 << 20];

}  // namespace

struct Subject {
  int touched = 0;
  void Process(Memory** packets, std::uint16_t count);
};

void Subject::Process(Memory** packets, std::uint16_t count) {
  for (std::uint16_t i = 0; i < count; ++i) touched += packets[i]->mbuf[0];
}

int main(int argc, char** argv) {
  const std::string_view where = argc > 1 ? argv[1] : "";
  Lay(first, first.buffer, kBuffer);
  Lay(second, where == "outside" ? elsewhere + sizeof elsewhere / 2 : second.buffer,
      where == "larger" ? 2 * kBuffer : kBuffer);
  Memory* packets[] = {&first, &second};
  Subject subject;
  // Volatile, so that it is really called.
  void (Subject::*volatile process)(Memory**, std::uint16_t) = &Subject::Process;
  (subject.*process)(packets, 2);
  return subject.touched < 0 ? 1 : 0;
}
