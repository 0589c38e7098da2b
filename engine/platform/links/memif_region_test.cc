#include "engine/platform/links/memif_region.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <utility>

#include "engine/monitor/link_progress.h"

namespace unis {
namespace {

constexpr MemifShape kShape{.slots = 256, .buffer_bytes = 2176};
constexpr std::size_t kToClientAt = 128 + 16 * 256;

// What a memif's client makes, among our own open files.
class Region {
 public:
  explicit Region(const MemifShape& shape, unsigned seals = F_SEAL_SHRINK)
      : fd_(memfd_create("region", MFD_ALLOW_SEALING)), bytes_(shape.RegionBytes()) {
    EXPECT_EQ(ftruncate(fd_, static_cast<off_t>(bytes_)), 0);
    EXPECT_EQ(fcntl(fd_, F_ADD_SEALS, seals), 0);
    memory_ =
        static_cast<std::byte*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
    for (std::size_t ring = 0; ring < shape.Rings(); ++ring)
      Put<std::uint32_t>(ring * (128 + std::size_t{16} * shape.slots), 0x3E31F20);
  }
  ~Region() {
    munmap(memory_, bytes_);
    close(fd_);
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  template <typename T>
  void Put(std::size_t at, T value) {
    std::memcpy(memory_ + at, &value, sizeof(value));
  }

 private:
  int fd_;
  std::size_t bytes_;
  std::byte* memory_;
};

TEST(MemifRegionTest, ReadsBothDirections) {
  Region made(kShape);
  auto region = MemifRegion::Find(getpid(), kShape);
  ASSERT_TRUE(region.ok()) << region.status();
  const Occupancy to_server = region->occupancy(MemifDirection::kToServer);
  const Occupancy to_client = region->occupancy(MemifDirection::kToClient);
  EXPECT_EQ(to_server.capacity(), 256U);
  made.Put<std::uint16_t>(6, 10);
  made.Put<std::uint16_t>(64, 3);
  made.Put<std::uint16_t>(kToClientAt + 6, 256);
  made.Put<std::uint16_t>(kToClientAt + 64, 20);
  EXPECT_EQ(to_server.Packets(), 7U);
  EXPECT_EQ(to_client.Packets(), 20U);
}

TEST(MemifRegionTest, CountsTheRingsOfAllQueuesTogether) {
  constexpr MemifShape kSeveral{.slots = 256, .buffer_bytes = 2176, .to_server = 2, .to_client = 3};
  Region made(kSeveral);  // rings: two to the server, then three to the client
  const auto region = MemifRegion::Find(getpid(), kSeveral);
  ASSERT_TRUE(region.ok()) << region.status();
  LinkProgress up(region->occupancy(MemifDirection::kToServer)),
      down(region->occupancy(MemifDirection::kToClient));
  const Occupancy to_server = region->occupancy(MemifDirection::kToServer);
  const Occupancy to_client = region->occupancy(MemifDirection::kToClient);
  EXPECT_EQ(to_server.capacity(), 256U) << "one queue alone can hold no more";
  made.Put<std::uint16_t>(6, 10);
  made.Put<std::uint16_t>(kToClientAt + 6, 7);
  made.Put<std::uint16_t>(kToClientAt + 64, 3);
  made.Put<std::uint16_t>(2 * kToClientAt + 6, 256);
  made.Put<std::uint16_t>(3 * kToClientAt + 6, 256);
  made.Put<std::uint16_t>(4 * kToClientAt + 6, 256);
  made.Put<std::uint16_t>(4 * kToClientAt + 64, 20);
  EXPECT_EQ(to_server.Packets(), 14U);
  EXPECT_EQ(to_client.Packets(), 20U);
  up.Sample();
  down.Sample();
  EXPECT_EQ(up.sent(), 17U);
  EXPECT_EQ(up.received(), 3U);
  EXPECT_EQ(down.sent(), 20U);
  made.Put<std::uint16_t>(64, 10 - 250);  // as a liar has it
  EXPECT_EQ(to_server.Packets(), 254U);
  made.Put<std::uint16_t>(kToClientAt + 64, 7 - 250);
  EXPECT_EQ(to_server.Packets(), 256U) << "never more than the capacity";
}

TEST(MemifRegionTest, SaysHowManyQueuesThereAreWhereOthersWereSaid) {
  const Region made(kShape);
  constexpr MemifShape kMore{.slots = 256, .buffer_bytes = 2176, .to_server = 3, .to_client = 2};
  const auto status = MemifRegion::Find(getpid(), kMore).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  const auto said = [&status](const char* words) {
    return status.message().find(words) != std::string::npos;
  };
  EXPECT_TRUE(said("and 3 + 2 queues (to the server + to the client), up")) << status;
  EXPECT_TRUE(said("; it has one with 2 queues in all")) << status;
}

TEST(MemifRegionTest, StaysReadableWhenThePeersAreGone) {
  std::optional<MemifRegion> kept;
  {
    Region made(kShape);
    made.Put<std::uint16_t>(6, 42);
    auto region = MemifRegion::Find(getpid(), kShape);
    ASSERT_TRUE(region.ok()) << region.status();
    EXPECT_TRUE(region->HeldBy(getpid()));
    kept.emplace(*std::move(region));
  }
  EXPECT_EQ(kept->occupancy(MemifDirection::kToServer).Packets(), 42U);
  EXPECT_FALSE(kept->HeldBy(getpid()));
  const Region another(kShape);
  EXPECT_FALSE(kept->HeldBy(getpid())) << "a new region of the same shape is another";
}

TEST(MemifRegionTest, TellsRegionsApartByTheirSize) {
  Region one(kShape), two({.slots = 256, .buffer_bytes = 2240});
  one.Put<std::uint16_t>(6, 1);
  two.Put<std::uint16_t>(6, 2);
  for (const std::uint16_t i : {1, 2}) {
    const MemifShape shape{.slots = 256, .buffer_bytes = i == 1 ? 2176U : 2240U};
    const auto region = MemifRegion::Find(getpid(), shape);
    ASSERT_TRUE(region.ok()) << region.status();
    EXPECT_EQ(region->occupancy(MemifDirection::kToServer).Packets(), i);
  }
}

TEST(MemifRegionTest, TwoOfOneShapeCannotBeToldApart) {
  const Region made(kShape);
  const auto first = MemifRegion::Find(getpid(), kShape);
  ASSERT_TRUE(first.ok());
  const Region other(kShape);
  const auto both = MemifRegion::Find(getpid(), kShape).status();
  EXPECT_EQ(both.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(both.message().find("has 2 memifs of 256 slots"), std::string::npos) << both;
}

TEST(MemifRegionTest, WhatIsNoMemifIsNotTakenForOne) {
  EXPECT_EQ(MemifRegion::Find(getpid(), kShape).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MemifRegion::Find(1 << 30, kShape).status().code(), absl::StatusCode::kNotFound);
  {
    Region not_yet(kShape);
    not_yet.Put<std::uint32_t>(kToClientAt, 0);
    EXPECT_EQ(MemifRegion::Find(getpid(), kShape).status().code(), absl::StatusCode::kNotFound);
  }
  {
    const Region shrinks(kShape, F_SEAL_GROW);  // its owner could make our next look fatal
    EXPECT_EQ(MemifRegion::Find(getpid(), kShape).status().code(), absl::StatusCode::kNotFound);
  }
  const Region other({.slots = 512, .buffer_bytes = 2176});
  EXPECT_EQ(MemifRegion::Find(getpid(), kShape).status().code(), absl::StatusCode::kNotFound);
}

TEST(LinkProgressTest, CountsBeyondThe16BitsOfThePositions) {
  Region made(kShape);
  made.Put<std::uint16_t>(kToClientAt + 6, 256);
  const auto region = MemifRegion::Find(getpid(), kShape);
  ASSERT_TRUE(region.ok()) << region.status();
  LinkProgress up(region->occupancy(MemifDirection::kToServer)),
      down(region->occupancy(MemifDirection::kToClient));
  std::uint32_t sent = 0;
  for (int i = 0; i < 20; ++i) {
    sent += 60'000;
    made.Put(6, static_cast<std::uint16_t>(sent));
    made.Put(64, static_cast<std::uint16_t>(sent - 5));
    made.Put(kToClientAt + 64, static_cast<std::uint16_t>(sent));
    made.Put(kToClientAt + 6, static_cast<std::uint16_t>(sent - 5 + 256));
    up.Sample();
    down.Sample();
  }
  EXPECT_EQ(up.sent(), 1'200'000U);
  EXPECT_EQ(up.received(), 1'199'995U);
  EXPECT_EQ(down.sent(), 1'200'000U);
  EXPECT_EQ(down.received(), 1'199'995U);
}

TEST(LinkProgressTest, TheFirstSlotsThatAReceiverOffersAreNoPackets) {
  Region made(kShape);
  const auto region = MemifRegion::Find(getpid(), kShape);
  ASSERT_TRUE(region.ok()) << region.status();
  LinkProgress down(region->occupancy(MemifDirection::kToClient));
  for (const std::uint16_t offered : {100, 256}) {
    made.Put<std::uint16_t>(kToClientAt + 6, offered);
    down.Sample();
    EXPECT_EQ(down.received(), 0U) << offered;
  }
  made.Put<std::uint16_t>(kToClientAt + 64, 40);
  made.Put<std::uint16_t>(kToClientAt + 6, 256 + 32);
  down.Sample();
  EXPECT_EQ(down.sent(), 40U);
  EXPECT_EQ(down.received(), 32U);
}

}  // namespace
}  // namespace unis
