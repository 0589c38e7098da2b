// A memif of which this process has both ends: what a program with the other end does is played by
// the test.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "engine/platform/eth_port.h"
#include "engine/platform/links/memif.h"
#include "engine/platform/memory_for_test.h"

namespace unis {

// A folder for control sockets that goes with the test.
class SocketFolder {
 public:
  SocketFolder() {
    std::string folder = std::filesystem::temp_directory_path() / "unis-memif-XXXXXX";
    if (mkdtemp(folder.data()) != nullptr) path_ = folder;
  }
  ~SocketFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  SocketFolder(const SocketFolder&) = delete;
  SocketFolder& operator=(const SocketFolder&) = delete;
  std::string file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// For --vdev of the program that has that end, or for EthPort.
inline std::string DeviceOf(const MemifConfig& config, const std::string& device,
                            const char* role = "client") {
  return fmt::format("{},role={},id={},socket={},socket-abstract=no,rsize={},bsize={}", device,
                     role, config.id, config.socket, std::countr_zero(config.shape.slots),
                     config.shape.buffer_bytes);
}

class MemifTest : public MemoryTest {
 protected:
  MemifConfig Config(const std::string& name, std::uint32_t buffer_bytes) const {
    return {.name = name,
            .socket = folder_.file(name + ".sock"),
            .id = 0,
            .shape = {.slots = 256, .buffer_bytes = buffer_bytes}};
  }
  // The engine's end, and the program's.
  struct Ends {
    Memif engine;
    EthPort program;
  };
  std::unique_ptr<Ends> Connect(const MemifConfig& config) {
    auto ours = Memif::Create(config, true, memory_->pool());
    EXPECT_TRUE(ours.ok()) << ours.status();
    if (!ours.ok()) return nullptr;
    auto theirs = OpenProgram(config);
    EXPECT_TRUE(theirs.ok()) << theirs.status();
    if (!theirs.ok()) return nullptr;
    auto ends = std::make_unique<Ends>(Ends{*std::move(ours), *std::move(theirs)});
    EXPECT_TRUE(
        Eventually([&] { return ends->engine.port()->LinkUp() && ends->program.LinkUp(); }));
    EXPECT_TRUE(Eventually([&] { return Locate(ends->engine); }));
    return ends;
  }
  // What a program has: DPDK's own driver.
  absl::StatusOr<EthPort> OpenProgram(const MemifConfig& config) const {
    return EthPort::Open(DeviceOf(config, "net_memif_program_" + config.name), memory_->pool(),
                         {.rx_count = static_cast<std::uint16_t>(config.shape.to_client),
                          .tx_count = static_cast<std::uint16_t>(config.shape.to_server)});
  }
  static bool Locate(Memif& memif, pid_t pid = getpid()) {
    auto region = memif.Find(pid);
    if (!region.ok()) return false;
    memif.Take(*std::move(region));
    return true;
  }
  template <typename Port>
  static std::uint32_t Receive(Port& port) {
    std::array<rte_mbuf*, kBurst> packets;
    const std::uint16_t count = port.Receive(packets.data(), kBurst);
    rte_pktmbuf_free_bulk(packets.data(), count);
    return count;
  }
  template <typename Port>
  std::uint32_t Send(Port& port, std::uint32_t count,
                     const std::array<std::uint8_t, 60>& bytes = {}) {
    std::uint32_t sent = 0;
    for (; sent < count; ++sent) {
      rte_mbuf* packet = Packet(bytes);
      if (port.Send(&packet, 1) == 1) continue;
      rte_pktmbuf_free(packet);
      break;
    }
    return sent;
  }

  SocketFolder folder_;
};

}  // namespace unis
