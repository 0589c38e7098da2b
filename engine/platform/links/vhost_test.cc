#include "engine/platform/links/vhost.h"

#include <absl/cleanup/cleanup.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rte_ethdev.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/dice_for_test.h"
#include "engine/monitor/link_progress.h"
#include "engine/platform/links/kinds.h"
#include "engine/platform/links/vhost_driver_for_test.h"
#include "engine/platform/memif_for_test.h"

namespace unis {
namespace {

using Request = VhostRequest;

constexpr std::uint32_t kVhostSlots = 256;

class VhostTest : public MemifTest {
 protected:
  v1::LinkConfig Wanted(bool engine_end) const {
    v1::LinkConfig config;
    config.set_name("link");
    config.set_kind(v1::LINK_VHOST);
    config.set_slots(kVhostSlots);
    config.mutable_vhost()->set_driver_socket(driver_socket());
    if (!engine_end) config.mutable_vhost()->set_device_socket(device_socket());
    return config;
  }
  void Make(bool engine_end) {
    const v1::LinkConfig config = Wanted(engine_end);
    ASSERT_TRUE(VhostKind().Check(config, false).ok());
    EXPECT_EQ(VhostKind().engine_has_end(config), engine_end);
    auto link = VhostKind().Make(config, false, memory_->pool());
    ASSERT_TRUE(link.ok()) << link.status();
    link_ = *std::move(link);
  }
  void TearDown() override {
    link_.reset();
    MemifTest::TearDown();
  }
  std::string driver_socket() const { return folder_.file("driver.sock"); }
  std::string device_socket() const { return folder_.file("device.sock"); }
  LinkEnd& engine() { return *link_->end(); }
  bool Up() { return dynamic_cast<VhostServer&>(engine()).LinkUp(); }

  // What programs have: DPDK's own drivers.
  absl::StatusOr<EthPort> OpenDriver(std::uint16_t descriptors = kVhostSlots) {
    const PortQueues queues{.rx = descriptors, .tx = descriptors};
    return EthPort::Open(fmt::format("net_virtio_user{},path={},queues=1,cq=1,queue_size={}",
                                     ++opened_, driver_socket(), kVhostSlots),
                         memory_->pool(), queues);
  }
  absl::StatusOr<EthPort> OpenDevice() {
    return EthPort::Open(
        fmt::format("net_vhost{},iface={},queues=1,client=1", ++opened_, device_socket()),
        memory_->pool());
  }
  bool Locate(unsigned end = 1) {
    auto found = link_->Find(getpid(), end);
    if (!found.ok()) return false;
    if (*found) link_->Take(*std::move(found));
    return true;
  }
  template <typename From, typename To>
  bool Passes(From& from, To& to) {
    return Eventually([&] {
      Send(from, 1);
      return Receive(to) > 0;
    });
  }
  void ServesTheNext() {
    auto driver = OpenDriver();
    ASSERT_TRUE(driver.ok()) << driver.status();
    EXPECT_TRUE(Passes(engine(), *driver));
    EXPECT_TRUE(Passes(*driver, engine()));
  }

  std::unique_ptr<Link> link_;
  static inline int opened_ = 0;
};

class VhostEngineTest : public VhostTest {
 protected:
  void SetUp() override {
    VhostTest::SetUp();
    Make(true);
  }
};

TEST_F(VhostEngineTest, OccupancyIsWhatWasSentAndNotReceived) {
  auto opened = OpenDriver();
  ASSERT_TRUE(opened.ok()) << opened.status();
  const EthPort& program = *opened;
  EXPECT_FALSE(link_->occupancy(0).readable());
  ASSERT_TRUE(Eventually([&] { return Locate(); }));
  const Occupancy to_engine = link_->occupancy(0), from_engine = link_->occupancy(1);
  EXPECT_EQ(from_engine.Packets() + to_engine.Packets(), 0U);
  LinkProgress there(from_engine), back(to_engine);
  for (std::uint32_t round = 0; round < 700; ++round) {  // more than 65,536 packets
    ASSERT_EQ(Send(engine(), 100), 100U);
    ASSERT_EQ(from_engine.Packets(), 100U);
    ASSERT_EQ(Send(program, 30), 30U);
    ASSERT_EQ(to_engine.Packets(), 30U);
    ASSERT_EQ(Receive(program), 64U);
    ASSERT_EQ(from_engine.Packets(), 36U);
    ASSERT_EQ(Receive(program), 36U);
    ASSERT_EQ(Receive(engine()), 30U);
    ASSERT_EQ(from_engine.Packets() + to_engine.Packets(), 0U);
    there.Sample();
    back.Sample();
  }
  EXPECT_EQ(there.sent(), 70'000U);
  EXPECT_EQ(there.received(), 70'000U);
  EXPECT_EQ(back.sent(), 21'000U);
  EXPECT_EQ(back.received(), 21'000U);
  EXPECT_EQ(engine().Room(), kVhostSlots);
  EXPECT_EQ(Send(engine(), 1000), kVhostSlots) << "all slots can be filled";
  EXPECT_EQ(from_engine.Packets(), from_engine.capacity());
  EXPECT_EQ(engine().Room(), 0U);
}

TEST_F(VhostEngineTest, AProgramMayInsistOnPromiscuousMode) {
  auto program = OpenDriver();
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(rte_eth_promiscuous_enable(program->id()), 0);
}

TEST_F(VhostEngineTest, WhoOffersFewerBuffersHasAShorterLink) {
  auto program = OpenDriver(128);
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_TRUE(Eventually([&] { return Locate(); }));
  EXPECT_EQ(link_->occupancy(1).capacity(), 128U);
  EXPECT_EQ(link_->occupancy(1).Packets(), 0U);
  EXPECT_EQ(Send(engine(), 1000), 128U);
}

TEST_F(VhostEngineTest, PacketsArriveWholeAndInOrder) {
  const VhostDriverForTest driver(driver_socket(), kVhostSlots);
  ASSERT_TRUE(driver.Start());
  std::array<std::uint8_t, 60> bytes{};
  for (std::uint16_t i = 0; i < 5; ++i) {
    bytes[0] = static_cast<std::uint8_t>(i);
    bytes[59] = static_cast<std::uint8_t>(100 + i);
    driver.Send(i, std::span(bytes).first(i == 3 ? 1 : 60));
  }
  std::array<rte_mbuf*, kBurst> packets;
  ASSERT_EQ(engine().Receive(packets.data(), kBurst), 5);
  EXPECT_EQ(driver.Used(1), 5U);
  for (std::uint16_t i = 0; i < 5; ++i) {
    const auto* const data = rte_pktmbuf_mtod(packets[i], const std::uint8_t*);
    EXPECT_EQ(data[0], i);
    EXPECT_EQ(packets[i]->pkt_len, i == 3 ? 1U : 60U);
    if (i != 3) {
      EXPECT_EQ(data[59], 100 + i);
    }
    driver.Offer(0, i, i == 2 ? 40 : VhostDriverForTest::kBufferBytes);
  }
  EXPECT_EQ(engine().Send(packets.data(), 5), 5);
  ASSERT_EQ(driver.Used(0), 5U);
  for (std::uint16_t i = 0; i < 5; ++i) {
    const std::uint32_t packet = i == 3 ? 1 : 60;
    EXPECT_EQ(driver.UsedBytes(0, i), i == 2 ? 0 : 12 + packet) << "where it does not fit, nothing";
    const std::byte* const at = driver.Buffer(0, i);
    EXPECT_EQ(at[10], std::byte{1}) << "in one buffer";
    if (i != 2) {
      EXPECT_EQ(at[12], std::byte(i));
    }
  }
}

TEST_F(VhostEngineTest, WhatDoesNotFitIsDroppedAndCountedOnItsWay) {
  const VhostDriverForTest driver(driver_socket(), kVhostSlots);
  ASSERT_TRUE(driver.Start());
  for (std::uint16_t i = 0; i < 4; ++i)
    driver.Offer(0, i, i < 3 ? 40 : VhostDriverForTest::kBufferBytes);
  EXPECT_EQ(Send(engine(), 4), 4U);
  EXPECT_EQ(link_->Dropped(1), 3U);
  EXPECT_EQ(link_->Dropped(0), 0U);
  driver.Send(0, std::array<std::uint8_t, 60>{});
  driver.Offer(1, 1, 4096);  // more than a buffer of the engine's
  driver.Offer(1, 2, 12);    // a header alone
  driver.Send(3, std::array<std::uint8_t, 60>{});
  EXPECT_EQ(Receive(engine()), 2U);
  EXPECT_EQ(driver.Used(1), 4U);
  EXPECT_EQ(link_->Dropped(0), 2U);
  EXPECT_EQ(link_->Dropped(1), 3U);
  EXPECT_EQ(memory_->InUse(), 0U);
}

// Each message of the driver's makes other queues of the same memory.
TEST_F(VhostEngineTest, WhatWaitsWhenTheQueuesAreFoundAgainCounts) {
  using Driver = VhostDriverForTest;
  const Driver driver(driver_socket(), kVhostSlots);
  ASSERT_TRUE(driver.Start());
  for (std::uint16_t i = 0; i < 8; ++i) driver.Offer(0, i, Driver::kBufferBytes);
  ASSERT_TRUE(Locate());
  EXPECT_EQ(Send(engine(), 5), 5U);
  EXPECT_EQ(link_->occupancy(1).Packets(), 5U);
  VhostMessage again = Driver::Vring(Request::kSetVringEnable, 0, 1);
  again.flags |= kVhostNeedReply;
  EXPECT_EQ(driver.Ask(again).request, Request::kSetVringEnable);
  link_->Forget(1);
  link_->DropReplaced();
  ASSERT_TRUE(Eventually([&] { return Locate(); }));
  EXPECT_EQ(link_->occupancy(1).capacity(), 8U);
  EXPECT_EQ(link_->occupancy(1).Packets(), 5U);
}

// It may start with fewer buffers.
TEST_F(VhostEngineTest, AQueueThatTheDriverHasStoppedBeginsAnew) {
  using Driver = VhostDriverForTest;
  const Driver driver(driver_socket(), kVhostSlots);
  ASSERT_TRUE(driver.Start());
  for (std::uint16_t i = 0; i < 8; ++i) driver.Offer(0, i, Driver::kBufferBytes);
  ASSERT_TRUE(Locate());
  EXPECT_EQ(Send(engine(), 3), 3U);
  EXPECT_EQ(driver.Ask(Driver::Vring(Request::kGetVringBase, 0, 0)).vring.number, 3U);
  link_->Forget(1);
  EXPECT_FALSE(Locate());
  const UniqueFd kick(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  EXPECT_TRUE(driver.Say(Driver::Number(Request::kSetVringKick, 0), {kick.get()}));
  ASSERT_TRUE(Eventually([&] { return Locate(); }));
  EXPECT_EQ(link_->occupancy(1).capacity(), 5U);
  EXPECT_EQ(link_->occupancy(1).Packets(), 0U);
}

TEST_F(VhostEngineTest, OnlyItsOwnerMayConnect) {
  struct stat status {};
  ASSERT_EQ(stat(driver_socket().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  link_.reset();
  EXPECT_NE(stat(driver_socket().c_str(), &status), 0) << "the socket is left behind";
}

TEST_F(VhostEngineTest, AfterADriverThatDiedTheNextIsServed) {
  for (int i = 0; i < 3; ++i) {
    ServesTheNext();
    EXPECT_TRUE(Eventually([&] { return !Up(); }));
    EXPECT_EQ(Receive(engine()) + Send(engine(), 1) + engine().Room(), 0U);
  }
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(VhostDriverForTest(driver_socket(), kVhostSlots).connected());
  ServesTheNext();
}

TEST_F(VhostEngineTest, WhatTheDriverLeftStaysReadableTillItIsDropped) {
  {
    const VhostDriverForTest driver(driver_socket(), kVhostSlots);
    ASSERT_TRUE(driver.Start());
    EXPECT_FALSE(Locate()) << "its port is not started";
    driver.Offer(0, 0, VhostDriverForTest::kBufferBytes);
    ASSERT_TRUE(Locate());
  }
  ASSERT_TRUE(Eventually([&] { return !Up(); }));
  const Occupancy before = link_->occupancy(0);
  EXPECT_EQ(before.Packets(), 0U);
  link_->Forget(1);
  EXPECT_FALSE(link_->occupancy(0).readable());
  EXPECT_EQ(before.Packets(), 0U);
  link_->DropReplaced();
}

TEST_F(VhostEngineTest, WhatIsNotOfTheProtocolEndsTheTalk) {
  const auto sent_away = [&](const VhostMessage& message, const std::vector<int>& files = {}) {
    const VhostDriverForTest driver(driver_socket(), kVhostSlots);
    EXPECT_TRUE(driver.Say(message, files));
    return driver.Hear().request == Request{};
  };
  using Driver = VhostDriverForTest;
  EXPECT_TRUE(sent_away(Driver::Of(Request{77})));
  EXPECT_TRUE(sent_away(Driver::Of(Request::kSetFeatures, 3)));
  EXPECT_TRUE(sent_away(Driver::Number(Request::kSetFeatures, ~0ULL)));
  EXPECT_TRUE(sent_away(Driver::Vring(Request::kSetVringNum, 0, kVhostSlots / 2)));
  EXPECT_TRUE(sent_away(Driver::Vring(Request::kGetVringBase, 2, 0)));
  VhostMessage other = Driver::Of(Request::kGetFeatures);
  other.flags = 2;
  EXPECT_TRUE(sent_away(other));
  other = Driver::Of(Request::kGetFeatures);
  other.bytes = 5000;
  const VhostDriverForTest driver(driver_socket(), kVhostSlots);
  ASSERT_EQ(send(driver.socket().get(), &other, kVhostHeaderBytes, 0), kVhostHeaderBytes);
  EXPECT_EQ(driver.Hear().request, Request{});
  EXPECT_FALSE(Up());
  ServesTheNext();
}

TEST_F(VhostEngineTest, MemoryThatCannotBeRightIsRefused) {
  const auto refused = [&](const auto& change) {
    const VhostDriverForTest driver(driver_socket(), kVhostSlots);
    return !driver.Start(change);
  };
  const auto of_table = [&](const auto& change) {
    return [&change](VhostMessage& message) {
      if (message.request == Request::kSetMemTable) change(message.table);
    };
  };
  const auto of_address = [&](const auto& change) {
    return [&change](VhostMessage& message) {
      if (message.request == Request::kSetVringAddr) change(message.address);
    };
  };
  EXPECT_FALSE(refused([](VhostMessage&) {}));
  EXPECT_TRUE(refused(of_table([](auto& it) { it.count = 0; })));
  EXPECT_TRUE(refused(of_table([](auto& it) { it.count = 2; })));
  EXPECT_TRUE(refused(of_table([](auto& it) { it.count = 0xffff'ffff; })));
  EXPECT_TRUE(refused(of_table([](auto& it) { it.regions[0].bytes += 4096; })));
  EXPECT_TRUE(refused(of_table([](auto& it) { it.regions[0].bytes = ~0ULL; })));
  EXPECT_TRUE(refused(of_table([](auto& it) { it.regions[0].offset = ~0ULL - 4095; })));
  EXPECT_TRUE(refused(of_table([](auto& it) { it.regions[0].offset = 4096; })));
  EXPECT_TRUE(refused(of_address([](auto& it) { it.descriptors += 8; })));
  EXPECT_TRUE(refused(of_address([](auto& it) { it.used = 0; })));
  EXPECT_TRUE(refused(of_address([](auto& it) { it.available = ~0ULL - 1; })));
  EXPECT_TRUE(refused(of_address([](auto& it) { it.descriptors = VhostDriverForTest::kGuest; })));
  ServesTheNext();
}

TEST_F(VhostEngineTest, ADriverThatTruncatesItsMemoryLosesItsOwnPacketsOnly) {
  VhostDriverForTest driver(driver_socket(), kVhostSlots);
  ASSERT_TRUE(driver.Start());
  for (std::uint16_t i = 0; i < 8; ++i) {
    driver.Send(i, std::array<std::uint8_t, 60>{});
    driver.Offer(0, i, VhostDriverForTest::kBufferBytes);
  }
  ASSERT_TRUE(Locate());
  ASSERT_EQ(ftruncate(driver.file().get(), 0), 0);
  for (int i = 0; i < 10; ++i) {
    Receive(engine());
    Send(engine(), 8);
    EXPECT_LE(link_->occupancy(0).Packets() + link_->occupancy(1).Packets(), 2 * kVhostSlots);
  }
}

// A driver in full possession of its memory, which writes what it likes while packets go both ways.
TEST_F(VhostEngineTest, WhateverStandsInTheMemoryPacketsStayWithinTheirBounds) {
  VhostDriverForTest driver(driver_socket(), kVhostSlots);
  ASSERT_TRUE(driver.Start());
  const char* wanted = std::getenv("UNIS_FUZZ_SECONDS");
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::duration<double>(wanted != nullptr ? std::atof(wanted) : 1);
  std::jthread liar([&](const std::stop_token& stop) {
    Dice dice(7);
    while (!stop.stop_requested()) {
      const auto queue = static_cast<std::uint32_t>(dice.Between(0, 1));
      const auto slot = static_cast<std::uint16_t>(dice.Between(0, kVhostSlots - 1));
      driver.Offer(queue, slot, static_cast<std::uint32_t>(dice.Between(0, 3000)));
      auto* const words = reinterpret_cast<volatile std::uint16_t*>(driver.memory());
      const auto last = static_cast<int>(driver.QueueBytes() - 1);
      words[dice.Between(0, last)] =
          static_cast<std::uint16_t>(dice.OneIn(3) ? dice.Between(0, 2) : dice.Between(0, 0xffff));
    }
  });
  std::uint64_t received = 0;
  std::array<rte_mbuf*, kBurst> packets;
  do {
    const std::uint16_t count = engine().Receive(packets.data(), kBurst);
    received += count;
    ASSERT_LE(count, kBurst);
    for (std::uint16_t i = 0; i < count; ++i) {
      ASSERT_GT(packets[i]->data_len, 0);
      ASSERT_LE(packets[i]->data_len + packets[i]->data_off, packets[i]->buf_len);
      ASSERT_EQ(packets[i]->pkt_len, packets[i]->data_len);
    }
    rte_pktmbuf_free_bulk(packets.data(), count);
    Send(engine(), 8);
    ASSERT_LE(engine().Room(), kVhostSlots);
  } while (std::chrono::steady_clock::now() <
           (received > 0 ? end : end + std::chrono::seconds(20)));
  EXPECT_GT(received, 0U) << "no lie was ever taken for a packet";
}

class VhostRelayTest : public VhostTest {
 protected:
  void SetUp() override {
    VhostTest::SetUp();
    Make(false);
    EXPECT_EQ(link_->end(), nullptr);
  }
  void PassesBothWays(EthPort& driver, EthPort& device) {
    EXPECT_TRUE(Passes(driver, device));
    EXPECT_TRUE(Passes(device, driver));
    ASSERT_TRUE(Eventually([&] { return Locate(0); }));
    while (Receive(device) + Receive(driver) > 0) {
    }
    const Occupancy to_device = link_->occupancy(0), to_driver = link_->occupancy(1);
    ASSERT_EQ(Send(driver, 20), 20U);
    EXPECT_EQ(to_device.Packets(), 20U);
    ASSERT_EQ(Send(device, 30), 30U);
    EXPECT_EQ(to_driver.Packets(), 30U);
    EXPECT_EQ(Receive(device), 20U);
    EXPECT_EQ(Receive(driver), 30U);
    EXPECT_EQ(to_device.Packets() + to_driver.Packets(), 0U);
  }
};

TEST_F(VhostRelayTest, BothEndsFindEachOtherAndAreReadFromOutside) {
  EXPECT_FALSE(Locate(0) || Locate(1));
  auto device = OpenDevice();
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_FALSE(Locate(0) || Locate(1));
  auto driver = OpenDriver();
  ASSERT_TRUE(driver.ok()) << driver.status();
  PassesBothWays(*driver, *device);
}

TEST_F(VhostRelayTest, WhicheverDiesTheOtherGoesOnWithTheNext) {
  auto driver = std::make_unique<absl::StatusOr<EthPort>>(OpenDriver());
  auto device = std::make_unique<absl::StatusOr<EthPort>>(OpenDevice());
  ASSERT_TRUE(driver->ok() && device->ok());
  PassesBothWays(**driver, **device);
  device.reset();
  ASSERT_TRUE(Eventually([&] {
    link_->Forget(0);
    return !Locate(0);
  }));
  ASSERT_TRUE(Locate(1));
  Send(**driver, 10);
  EXPECT_EQ(link_->occupancy(0).Packets(), 10U) << "what waits there waits for the next";
  device = std::make_unique<absl::StatusOr<EthPort>>(OpenDevice());
  ASSERT_TRUE(device->ok());
  PassesBothWays(**driver, **device);
  link_->Forget(1);
  driver.reset();
  ASSERT_TRUE(Eventually([&] { return !Locate(0) && !Locate(1); }));
  driver = std::make_unique<absl::StatusOr<EthPort>>(OpenDriver());
  ASSERT_TRUE(driver->ok());
  PassesBothWays(**driver, **device);
}

// The clock of the relay's thread: others of this process may poll.
std::optional<clockid_t> RelaysClock() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name != "unis-vhost") continue;
    const auto tid = static_cast<unsigned>(std::stoul(task.path().filename().string()));
    constexpr unsigned kOfThread = 6;  // in the kernel's include/linux/posix-timers.h
    return static_cast<clockid_t>((~tid << 3) | kOfThread);
  }
  return std::nullopt;  // it has not begun
}

std::uint64_t TimeOn(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

// As an engine that has too many files open.
TEST_F(VhostRelayTest, WhereADriverCannotBeTakenItWaitsAndNobodySpins) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  {
    const absl::Cleanup again = [&] { setrlimit(RLIMIT_NOFILE, &before); };
    std::optional<clockid_t> clock;
    ASSERT_TRUE(Eventually([&] { return (clock = RelaysClock()).has_value(); }));
    const UniqueFd waits(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const rlimit none{.rlim_cur = 3, .rlim_max = before.rlim_max};  // which are there
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    driver_socket().copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(connect(waits.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    constexpr std::chrono::milliseconds kTime(300);
    const std::uint64_t ran = TimeOn(*clock);
    std::this_thread::sleep_for(kTime);
    EXPECT_LT(TimeOn(*clock) - ran, std::chrono::nanoseconds(kTime).count() / 2);
  }
  const VhostDriverForTest driver(driver_socket(), kVhostSlots);
  EXPECT_TRUE(driver.Start()) << "it is taken once there is a descriptor for it";
}

TEST_F(VhostRelayTest, ADeviceThatDoesNotAnswerIsSentAwayAndTheDriverServed) {
  const VhostDriverForTest silent(device_socket(), kVhostSlots);
  auto driver = OpenDriver();
  ASSERT_TRUE(driver.ok()) << driver.status();
  auto device = OpenDevice();
  ASSERT_TRUE(device.ok()) << device.status();
  PassesBothWays(*driver, *device);
}

TEST_F(VhostTest, SaysWhatItCannotMake) {
  v1::LinkConfig config = Wanted(true);
  config.mutable_vhost()->set_driver_socket(folder_.file("nowhere/s.sock"));
  const auto made = VhostKind().Make(config, false, memory_->pool()).status();
  EXPECT_NE(made.message().find("No such file"), std::string::npos) << made;
  const auto refused = [&](const auto& change) {
    v1::LinkConfig wrong = Wanted(true);
    change(wrong);
    return std::string(VhostKind().Check(wrong, false).message());
  };
  EXPECT_NE(refused([](auto& it) { it.clear_slots(); }).find("has no slots"), std::string::npos);
  EXPECT_NE(refused([](auto& it) { it.set_slots(65536); }).find("at most 32768"),
            std::string::npos);
  EXPECT_NE(refused([](auto& it) { it.mutable_vhost()->clear_driver_socket(); }).find("no socket"),
            std::string::npos);
  EXPECT_FALSE(VhostKind().Check(Wanted(true), true).ok());
  v1::LinkConfig relay = Wanted(false);
  relay.mutable_vhost()->set_device_socket(folder_.file("nowhere/s.sock"));
  EXPECT_FALSE(VhostKind().Make(relay, false, nullptr).ok());
  struct stat status {};
  EXPECT_NE(stat(driver_socket().c_str(), &status), 0) << "half of it is left behind";
}

}  // namespace
}  // namespace unis
