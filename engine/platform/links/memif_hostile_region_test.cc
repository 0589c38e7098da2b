// Peers of a memif that write what they like while the engine reads: cookies, positions and the
// size of the file, thousands of times a second.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "engine/base/dice_for_test.h"
#include "engine/base/fuzz_for_test.h"
#include "engine/monitor/link_progress.h"
#include "engine/platform/links/memif_region.h"

namespace unis {
namespace {

constexpr MemifShape kRight{.slots = 256, .buffer_bytes = 2176, .to_server = 2, .to_client = 1};
constexpr std::uint32_t kRingCookie = 0x3E31F20;

// One open file that is sometimes a memif's region: of any size and seals, its head overwritten.
class Hostile {
 public:
  explicit Hostile(std::uint64_t seed) : dice_(seed) { Renew(); }
  ~Hostile() { Close(); }
  Hostile(const Hostile&) = delete;
  Hostile& operator=(const Hostile&) = delete;

  void Act() {
    if (dice_.OneIn(64)) return Renew();
    if (dice_.OneIn(16)) (void)ftruncate(fd_, static_cast<off_t>(Size()));
    if (dice_.OneIn(64)) (void)fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK);
    const std::uint32_t junk = dice_.OneIn(3) ? kRingCookie : dice_.Between(0, ~0U - 1);
    const std::size_t ring = dice_.Between(0, kRings - 1) * kRingBytes;
    const std::size_t at = ring + (dice_.OneIn(2) ? 0 : std::size_t{4} * dice_.Between(0, 31));
    // By a call: where the file has become shorter it fails, and does not take us along.
    (void)pwrite(fd_, &junk, sizeof(junk), static_cast<off_t>(at));
  }

 private:
  static constexpr std::uint32_t kRings = kRight.Rings();
  static constexpr std::size_t kRingBytes = 128 + 16 * kRight.slots;

  std::size_t Size() {
    const std::size_t right = kRight.RegionBytes();
    if (dice_.OneIn(2)) return right;
    return dice_.OneIn(2) ? dice_.Between(0, 2 * kRings * kRingBytes)
                          : right + dice_.Between(0, 2) - 1;
  }
  void Renew() {
    Close();
    fd_ = memfd_create("hostile", MFD_ALLOW_SEALING);
    (void)ftruncate(fd_, static_cast<off_t>(Size()));
    for (std::uint32_t ring = 0; ring < kRings; ++ring)
      (void)pwrite(fd_, &kRingCookie, sizeof(kRingCookie), static_cast<off_t>(ring * kRingBytes));
    if (!dice_.OneIn(4)) (void)fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK);
  }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

  Dice dice_;
  int fd_ = -1;
};

TEST(HostileRegionTest, EveryReadingIsANumberWithinItsBounds) {
  const std::uint64_t seed = FuzzSeed();
  SCOPED_TRACE(testing::Message() << "UNIS_FUZZ_SEED=" << seed);
  std::jthread peer([seed](const std::stop_token& stop) {
    Hostile hostile(seed);
    while (!stop.stop_requested()) hostile.Act();
  });
  const auto end = std::chrono::steady_clock::now() + FuzzTime();
  std::uint64_t found = 0;
  std::optional<MemifRegion> kept;  // also when its file is long gone
  std::optional<LinkProgress> progress;
  do {
    auto region = MemifRegion::Find(getpid(), kRight);
    if (region.ok()) {
      ++found;
      const auto replaced =
          std::exchange(kept, *std::move(region));  // progress reads it until Follow()
      if (!progress) progress.emplace(kept->occupancy(MemifDirection::kToServer));
      progress->Follow(
          kept->occupancy(found % 2 != 0 ? MemifDirection::kToClient : MemifDirection::kToServer));
    }
    if (!kept) continue;
    for (const auto direction : {MemifDirection::kToServer, MemifDirection::kToClient})
      for (int look = 0; look < 50; ++look)
        ASSERT_LE(kept->occupancy(direction).Packets(), kRight.slots);
    const std::uint64_t before = progress->sent();
    progress->Sample();
    ASSERT_LE(progress->sent() - before, kRight.to_server * 0xffffU);
    (void)kept->HeldBy(getpid());
  } while (std::chrono::steady_clock::now() < end);
  EXPECT_GT(found, 0U) << "nothing was read";
}

}  // namespace
}  // namespace unis
