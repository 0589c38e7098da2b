// Capture files, byte by byte as their specifications have them (draft-ietf-opsawg-pcap, -pcapng),
// so that reading is not tested against the library that reads.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace unis {

using Bytes = std::vector<std::uint8_t>;

inline constexpr std::uint16_t kEthernetLink = 1;
inline constexpr std::uint16_t kRawIpLink = 101;

class CaptureBytes {
 public:
  explicit CaptureBytes(bool big_endian) : big_endian_(big_endian) {}
  void Put16(std::uint32_t value) { Put(value, 2); }
  void Put32(std::uint32_t value) { Put(value, 4); }
  void Append(const Bytes& more) { bytes_.insert(bytes_.end(), more.begin(), more.end()); }
  void PadTo4() { bytes_.resize((bytes_.size() + 3) / 4 * 4); }
  const Bytes& bytes() const { return bytes_; }

 private:
  void Put(std::uint32_t value, unsigned size) {
    for (unsigned i = 0; i < size; ++i) {
      const unsigned shift = 8 * (big_endian_ ? size - 1 - i : i);
      bytes_.push_back(static_cast<std::uint8_t>(value >> shift));
    }
  }

  bool big_endian_;
  Bytes bytes_;
};

inline Bytes PcapFile(const std::vector<Bytes>& frames, std::uint16_t link = kEthernetLink,
                      bool big_endian = false) {
  CaptureBytes file(big_endian);
  file.Put32(0xa1b2c3d4);
  file.Put16(2);
  file.Put16(4);
  file.Put32(0);
  file.Put32(0);
  file.Put32(65535);
  file.Put32(link);
  std::uint32_t second = 1;
  for (const Bytes& frame : frames) {
    file.Put32(second++);
    file.Put32(0);
    file.Put32(static_cast<std::uint32_t>(frame.size()));
    file.Put32(static_cast<std::uint32_t>(frame.size()));
    file.Append(frame);
  }
  return file.bytes();
}

inline Bytes PcapngFile(const std::vector<Bytes>& frames, std::uint16_t link = kEthernetLink,
                        bool big_endian = false) {
  CaptureBytes file(big_endian);
  file.Put32(0x0a0d0d0a);  // section header
  file.Put32(28);
  file.Put32(0x1a2b3c4d);
  file.Put16(1);
  file.Put16(0);
  file.Put32(0xffffffff);
  file.Put32(0xffffffff);
  file.Put32(28);
  file.Put32(1);  // interface description
  file.Put32(20);
  file.Put16(link);
  file.Put16(0);
  file.Put32(65535);
  file.Put32(20);
  std::uint32_t time = 1;
  for (const Bytes& frame : frames) {
    const auto size = static_cast<std::uint32_t>(frame.size());
    const std::uint32_t block = 32 + (size + 3) / 4 * 4;
    file.Put32(6);  // enhanced packet
    file.Put32(block);
    file.Put32(0);
    file.Put32(0);
    file.Put32(time++);
    file.Put32(size);
    file.Put32(size);
    file.Append(frame);
    file.PadTo4();
    file.Put32(block);
  }
  return file.bytes();
}

inline Bytes RandomBytes(std::mt19937& random, std::size_t size) {
  Bytes bytes(size);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

// A file that goes with it.
class CaptureFile {
 public:
  explicit CaptureFile(const Bytes& bytes) { Write(bytes); }
  ~CaptureFile() { std::filesystem::remove(path_); }
  CaptureFile(const CaptureFile&) = delete;
  CaptureFile& operator=(const CaptureFile&) = delete;

  void Write(const Bytes& bytes) const {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_ = std::filesystem::temp_directory_path() /
                                ("unis-capture-test-" + std::to_string(getpid()) + ".pcap");
};

}  // namespace unis
