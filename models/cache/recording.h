// What `unis-refs` (models/recorder/) wrote: the cache lines that a function touched while it
// worked on packets, without those that no LRU cache of a multiple of kFilterSets sets could tell
// from the one before.
//
// A file is the eight bytes "UNISREF1" and then records, the last of which ends a burst. A record
// begins with a varint (LEB128): its low two bits are the kind, those above them a value. Of kinds
// 2 and 3 two more varints follow.
//
//   kind               value            first varint                second varint
//   0 load             the line
//   1 store            the line
//   2 arrival          an mbuf's line   lines from it to the frame  lines of the frame, up to 1025
//   3 end of a burst   packets, over 0  instructions                references
//
// A line is an address divided by 64. It is told as its difference to the line of the record before
// that has one (at first: to 0), folded to be positive (zigzag: 0, -1, 1, -2, ... are 0, 1, 2, 3,
// ...). References are counted before any is left out. A burst has as many packets as have arrived
// since the one before, and up to 2^40 instructions and references.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "models/cache/private_cache.h"
#include "models/cache/recording_format.h"

namespace unis::cache {

inline constexpr std::uint32_t kFilterSets = kUnisFilterSets;  // a geometry's are a multiple

struct Event {
  enum class Kind : std::uint8_t {
    kLoad = kUnisLoad,
    kStore = kUnisStore,
    kArrival = kUnisArrival,
    kBurstEnd = kUnisBurstEnd,
  };
  Kind kind = Kind::kBurstEnd;
  Line line = 0;               // load, store; arrival: of the mbuf
  std::uint64_t frame_at = 0;  // arrival: lines behind the mbuf's
  std::uint64_t frame_lines = 0;
  std::uint64_t packets = 0;  // of the burst that ends
  std::uint64_t instructions = 0;
  std::uint64_t references = 0;
};

class Recording {
 public:
  // Where in a recording one is; lines are told by the one before.
  struct Place {
    std::size_t at;
    Line previous = 0;
  };

  // The recording, or a sentence that says what is wrong with the file.
  static std::variant<Recording, std::string> Read(const std::string& file);
  static std::variant<Recording, std::string> Parse(std::vector<std::uint8_t> bytes);

  Place begin() const { return {kMagicBytes}; }
  bool AtEnd(Place place) const { return place.at == bytes_.size(); }
  Event Next(Place& place) const;  // not at the end

  std::uint64_t packets() const { return packets_; }

 private:
  static constexpr std::size_t kMagicBytes = sizeof UNIS_RECORDING_MAGIC - 1;
  explicit Recording(std::vector<std::uint8_t> bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t Varint(Place& place) const;

  std::vector<std::uint8_t> bytes_;  // whole records, the last of which ends a burst
  std::uint64_t packets_ = 0;
};

// Writes what Recording reads.
class RecordingWriter {
 public:
  RecordingWriter();
  void Load(Line line) { PutLine(kUnisLoad, line); }
  void Store(Line line) { PutLine(kUnisStore, line); }
  void Arrival(Line mbuf, std::uint64_t frame_at, std::uint64_t frame_lines);
  void BurstEnd(std::uint64_t packets, std::uint64_t instructions, std::uint64_t references);
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  void Put(std::uint64_t varint);
  void PutLine(unis_record kind, Line line);

  std::vector<std::uint8_t> bytes_;
  Line previous_ = 0;
};

}  // namespace unis::cache
