// Frames to send, ready in memory: made from a description, or read from a capture.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/size_mix.h"

namespace unis {

inline constexpr std::uint32_t kMinFrame = 64;    // bytes with FCS
inline constexpr std::uint32_t kMaxFrame = 1518;  // of synthetic frames
inline constexpr std::uint32_t kFcs = 4;          // never in memory, always in sizes and rates

struct Prefix {
  std::uint32_t address = 0;  // host byte order
  std::uint32_t length = 0;   // bits, 0 to 32
};

// What an IPv4 packet must be to belong to a chain; absent fields match everything.
struct FlowMatch {
  std::optional<Prefix> src, dst;
  std::optional<std::uint16_t> src_port, dst_port;
  std::optional<std::uint8_t> protocol;
};

// A run of frames that follow each other.
class Frames {
 public:
  struct Frame {
    std::size_t offset;    // of its bytes
    std::uint16_t stored;  // bytes to write; behind them a packet keeps whatever it held
    std::uint16_t length;  // bytes without FCS
    bool stamped;          // it has a PayloadStamp
  };

  void Add(std::span<const std::byte> bytes, std::uint16_t length, bool stamped = false);
  std::size_t size() const { return frames_.size(); }
  const Frame& operator[](std::size_t i) const { return frames_[i]; }
  std::span<const std::byte> Bytes(const Frame& frame) const {
    return std::span(bytes_).subspan(frame.offset, frame.stored);
  }

 private:
  std::vector<std::byte> bytes_;
  std::vector<Frame> frames_;
};

struct SyntheticTraffic {
  SizeMix mix = SizeMix::kFixed;
  std::uint32_t size = kMinFrame;  // bytes with FCS, kFixed only
  std::uint32_t flows = 256;       // distinct 5-tuples
};

// UDP over IPv4 that satisfies `matches`, each by as many flows. Flows and sizes vary
// independently, the same at every call. The sizes of a mix are drawn as engine/base/size_mix.h has
// them.
Frames MakeFrames(const SyntheticTraffic& traffic, const std::vector<FlowMatch>& matches);

// The Ethernet frames of a pcap or pcapng file. Those longer than a packet buffer are left out;
// `too_long`, if given, counts them.
absl::StatusOr<Frames> ReadCapture(const std::filesystem::path& file,
                                   std::size_t* too_long = nullptr);

}  // namespace unis
