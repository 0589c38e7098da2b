#include "models/cache/recording.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

namespace unis::cache {
namespace {

constexpr std::string_view kMagic = UNIS_RECORDING_MAGIC;
constexpr int kLongestVarint = 10;  // bytes
// Of a frame of 65535 bytes, the most that an mbuf can hold, with the lines at both its ends.
constexpr std::uint64_t kMostFrameLines = (65535 >> kUnisLineBits) + 2;
// Of a burst's instructions and references: sums of them have room in 64 bits.
constexpr std::uint64_t kMostOfABurst = std::uint64_t{1} << 40;

// Whether a varint begins and ends before `end`; moves past it.
bool Skip(const std::vector<std::uint8_t>& bytes, std::size_t& at) {
  for (int i = 0; i < kLongestVarint && at < bytes.size(); ++i) {
    if ((bytes[at++] & 0x80) == 0) return true;
  }
  return false;
}

}  // namespace

std::variant<Recording, std::string> Recording::Read(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::vector<std::uint8_t> bytes;
  try {
    if (in) bytes.assign(std::istreambuf_iterator<char>(in), {});
  } catch (const std::ios_base::failure&) {  // libstdc++: it is a directory
    in.setstate(std::ios::badbit);
  }
  if (in.bad() || bytes.empty()) return file + " cannot be read, or is empty.";
  auto parsed = Parse(std::move(bytes));
  if (auto* sentence = std::get_if<std::string>(&parsed)) return file + " " + *sentence;
  return parsed;
}

std::variant<Recording, std::string> Recording::Parse(std::vector<std::uint8_t> bytes) {
  if (bytes.size() < kMagic.size() || !std::equal(kMagic.begin(), kMagic.end(), bytes.begin())) {
    return "is no recording: it does not begin with " UNIS_RECORDING_MAGIC ".";
  }
  std::uint64_t packets = 0, arrived = 0;
  bool ended = true;
  Recording recording(std::move(bytes));
  for (std::size_t at = kMagicBytes; at < recording.bytes_.size();) {
    Place place{at};
    const std::size_t kind = recording.bytes_[at] & 3;
    bool whole = Skip(recording.bytes_, at);
    if (kind == kUnisArrival || kind == kUnisBurstEnd) {
      whole = whole && Skip(recording.bytes_, at) && Skip(recording.bytes_, at);
    }
    if (!whole) return "ends in the middle of a record: was the recorder killed?";
    const Event event = recording.Next(place);
    if (event.frame_lines > kMostFrameLines) return "has a frame of more lines than a packet has.";
    ended = event.kind == Event::Kind::kBurstEnd;
    arrived += event.kind == Event::Kind::kArrival;
    if (!ended) continue;
    const std::uint64_t burst = event.packets;
    if (burst == 0) return "has a burst without packets.";  // of which a player would never tire
    if (burst != arrived) return "has a burst of other packets than have arrived.";
    if (std::max(event.instructions, event.references) > kMostOfABurst) {
      return "has a burst of more instructions or references than 2^40.";
    }
    packets += burst;
    arrived = 0;
  }
  if (!ended) return "ends in the middle of a burst: was the recorder killed?";
  if (packets == 0) return "has no packets.";
  recording.packets_ = packets;
  return recording;
}

std::uint64_t Recording::Varint(Place& place) const {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const std::uint8_t byte = bytes_[place.at++];
    if (shift < 64) value |= std::uint64_t{byte & 0x7fu} << shift;
    if ((byte & 0x80) == 0) return value;
  }
}

Event Recording::Next(Place& place) const {
  const std::uint64_t first = Varint(place);
  Event event;
  event.kind = static_cast<Event::Kind>(first & 3);
  const std::uint64_t value = first >> 2;
  if (event.kind == Event::Kind::kBurstEnd) {
    event.packets = value;
    event.instructions = Varint(place);
    event.references = Varint(place);
    return event;
  }
  event.line = place.previous += (value >> 1) ^ (~(value & 1) + 1);
  if (event.kind == Event::Kind::kArrival) {
    event.frame_at = Varint(place);
    event.frame_lines = Varint(place);
  }
  return event;
}

RecordingWriter::RecordingWriter() : bytes_(kMagic.begin(), kMagic.end()) {}

void RecordingWriter::Put(std::uint64_t varint) {
  for (; varint >= 0x80; varint >>= 7) bytes_.push_back(static_cast<std::uint8_t>(varint | 0x80));
  bytes_.push_back(static_cast<std::uint8_t>(varint));
}

void RecordingWriter::PutLine(unis_record kind, Line line) {
  const std::uint64_t step = line - previous_;
  previous_ = line;
  Put(((step << 1) ^ (~(step >> 63) + 1)) << 2 | kind);
}

void RecordingWriter::Arrival(Line mbuf, std::uint64_t frame_at, std::uint64_t frame_lines) {
  PutLine(kUnisArrival, mbuf);
  Put(frame_at);
  Put(frame_lines);
}

void RecordingWriter::BurstEnd(std::uint64_t packets, std::uint64_t instructions,
                               std::uint64_t references) {
  Put(packets << 2 | kUnisBurstEnd);
  Put(instructions);
  Put(references);
}

}  // namespace unis::cache
