// The port of a switch that is a process: here this one, which has a packet socket on it.
#include "engine/platform/links/switch_port.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/base/machine_for_test.h"
#include "engine/base/unique_fd.h"
#include "engine/platform/links/device_pair_for_test.h"

namespace unis {
namespace {

class SwitchPortTest : public ::testing::Test {
 protected:
  void SetUp() override {
    UNIS_NEED_ROOT();
    ASSERT_NO_FATAL_FAILURE(MakeDevicePair(near_, far_));
    WritePid(getpid());
  }
  void TearDown() override {
    RemoveDevicePair(near_);
    std::filesystem::remove(pid_file_);
  }
  void WritePid(pid_t pid) const { std::ofstream(pid_file_) << pid << '\n'; }

  // Not by a queue: that of a new device drops for a while.
  static UniqueFd Socket(const std::string& device) {
    UniqueFd socket(::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0));
    const int on = 1;
    EXPECT_EQ(setsockopt(socket.get(), SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)), 0);
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex(device.c_str()));
    EXPECT_EQ(bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return socket;
  }
  static void Send(const UniqueFd& from, int count) {
    const std::vector<std::uint8_t> frame(60, 0x5a);
    for (int i = 0; i < count; ++i) ASSERT_EQ(send(from.get(), frame.data(), frame.size(), 0), 60);
  }
  static int Receive(const UniqueFd& at) {
    std::vector<std::uint8_t> frame(2048);
    int count = 0;
    while (recv(at.get(), frame.data(), frame.size(), MSG_DONTWAIT) > 0) ++count;
    return count;
  }

  const std::string near_ = fmt::format("us{}a", getpid()), far_ = fmt::format("us{}b", getpid());
  const std::string pid_file_ = ::testing::TempDir() + near_;
  SwitchPort port_{pid_file_, far_};
};

TEST_F(SwitchPortTest, WhatTheSwitchHasNoRoomForIsCounted) {
  const UniqueFd sender = Socket(near_), receiver = Socket(far_);
  ASSERT_TRUE(port_.Follow().ok());
  Send(sender, 1000);
  const std::uint64_t dropped = port_.Dropped();
  EXPECT_GT(dropped, 0U);
  EXPECT_EQ(dropped + static_cast<std::uint64_t>(Receive(receiver)), 1000U);
  EXPECT_EQ(port_.Dropped(), dropped) << "each once";
}

TEST_F(SwitchPortTest, WhatWaitsThereHasNoRoomBehindIt) {
  const UniqueFd sender = Socket(near_), receiver = Socket(far_);
  EXPECT_EQ(port_.Room(64, 1024, 1024), 0U) << "the switch was not found yet";
  ASSERT_TRUE(port_.Follow().ok());
  EXPECT_EQ(port_.Room(64, 1024, 1024), 64U);
  EXPECT_EQ(port_.Room(64, 100, 1024), 36U) << "64 may be in its hands";
  Send(sender, 30);
  EXPECT_EQ(port_.Room(64, 100, 1024), 6U);
  EXPECT_EQ(port_.Room(64, 10, 1024), 0U);
  Send(sender, 1000);
  EXPECT_EQ(port_.Room(64, 1024, 1024), 0U) << "its buffer is full";
  Receive(receiver);
  EXPECT_EQ(port_.Room(64, 1024, 1024), 64U);
}

// A process that has a socket there, from which it takes nothing.
class OtherSwitch {
 public:
  template <typename Open>
  explicit OtherSwitch(Open open) {
    int pipe[2];
    EXPECT_EQ(::pipe(pipe), 0);
    pid = fork();
    if (pid == 0) {
      const UniqueFd socket = open();
      (void)!write(pipe[1], "", 1);
      for (;;) pause();
    }
    char byte = 0;
    EXPECT_EQ(read(pipe[0], &byte, 1), 1);
    close(pipe[0]);
    close(pipe[1]);
  }
  ~OtherSwitch() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  pid_t pid;
};

TEST_F(SwitchPortTest, ASwitchThatWasStartedAgainIsFoundAndDropsGoOn) {
  const UniqueFd sender = Socket(near_);
  std::uint64_t dropped = 0;
  {
    const OtherSwitch first([&] { return Socket(far_); });
    WritePid(first.pid);
    ASSERT_TRUE(port_.Follow().ok());
    EXPECT_EQ(port_.Room(64, 1024, 1024), 64U);
    Send(sender, 1000);
    dropped = port_.Dropped();
    ASSERT_GT(dropped, 0U);
  }
  Send(sender, 5);
  EXPECT_EQ(port_.Dropped(), 1005U) << "it is gone, with what waited there";
  EXPECT_EQ(port_.Room(64, 1024, 1024), 0U);
  const OtherSwitch second([&] { return Socket(far_); });
  WritePid(second.pid);
  Send(sender, 1000);
  EXPECT_EQ(port_.Dropped(), 1005 + dropped) << "as many as found no room at the first";
}

TEST_F(SwitchPortTest, WithoutItsProcessThereIsNone) {
  const UniqueFd receiver = Socket(far_);
  std::filesystem::remove(pid_file_);
  EXPECT_EQ(port_.Follow().code(), absl::StatusCode::kNotFound);
  WritePid(1);
  EXPECT_EQ(port_.Follow().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(port_.Dropped(), 0U);
}

}  // namespace
}  // namespace unis
