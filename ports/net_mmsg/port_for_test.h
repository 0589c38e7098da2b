// Ports of net_mmsg as a program opens them, on devices in a network namespace of the test's own.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/eal_for_test.h"
#include "engine/base/private_copy_for_test.h"
#include "engine/base/unique_fd.h"
#include "engine/base/with_for_test.h"
#include "net_mmsg/calls_for_test.h"

namespace unis {

using Bytes = std::vector<std::uint8_t>;

using Pool = std::unique_ptr<rte_mempool, With<rte_mempool_free>>;

inline bool Shell(const std::string& command) { return std::system(command.c_str()) == 0; }

inline std::string OutputOf(const std::string& command) {
  const std::unique_ptr<FILE, With<pclose>> output(popen(command.c_str(), "r"));
  std::string text;
  for (int c = 0; output && (c = std::fgetc(output.get())) != EOF;)
    text.push_back(static_cast<char>(c));
  return text;
}

inline std::size_t OpenFiles() {
  return static_cast<std::size_t>(std::distance(
      std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

// Of `bytes`, with a number in it.
inline Bytes Frame(std::size_t bytes, std::uint16_t number = 0) {
  Bytes frame(bytes);
  for (std::size_t i = 0; i < bytes; ++i) frame[i] = static_cast<std::uint8_t>(i * 7 + number);
  frame[0] = 2;  // to one receiver
  frame[12] = 0x88;
  frame[13] = 0xb5;
  frame[14] = static_cast<std::uint8_t>(number);
  frame[15] = static_cast<std::uint8_t>(number >> 8);
  return frame;
}

inline Bytes Tagged(std::size_t bytes, std::uint16_t type = 0x8100) {
  Bytes frame = Frame(bytes - 4);
  const std::array<std::uint8_t, 4> tag{static_cast<std::uint8_t>(type >> 8),
                                        static_cast<std::uint8_t>(type), 0x20, 0x07};
  frame.insert(frame.begin() + 12, tag.begin(), tag.end());
  return frame;
}

// A port as any program opens it.
class Port {
 public:
  explicit Port(const std::string& arguments, rte_mempool* pool, std::uint16_t queues = 1,
                std::uint64_t offloads = 0) {
    static int number = 0;
    const std::string name = fmt::format("net_mmsg{}", number++);
    const int err = rte_dev_probe((name + "," + arguments).c_str());
    if (err != 0 || rte_eth_dev_get_port_by_name(name.c_str(), &id_) != 0) return;
    rte_eth_conf conf{};
    conf.rxmode.offloads = offloads;
    std::uint16_t rx = 512, tx = 512;
    opened_ = rte_eth_dev_configure(id_, queues, queues, &conf) == 0 &&
              rte_eth_dev_adjust_nb_rx_tx_desc(id_, &rx, &tx) == 0;
    for (std::uint16_t i = 0; i < queues && opened_; ++i)
      opened_ = rte_eth_rx_queue_setup(id_, i, rx, 0, nullptr, pool) == 0 &&
                rte_eth_tx_queue_setup(id_, i, tx, 0, nullptr) == 0;
    opened_ = opened_ && rte_eth_dev_start(id_) == 0;
  }
  ~Port() {
    rte_eth_dev_info info{};
    if (id_ == kNone || rte_eth_dev_info_get(id_, &info) != 0) return;
    rte_eth_dev_stop(id_);
    EXPECT_EQ(rte_dev_remove(info.device), 0);
  }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  bool opened() const { return opened_; }
  std::uint16_t id() const { return id_; }
  std::vector<Bytes> Receive(std::uint16_t most = 512, std::uint16_t queue = 0) const {
    std::array<rte_mbuf*, 512> packets;
    const std::uint16_t count = rte_eth_rx_burst(id_, queue, packets.data(), most);
    std::vector<Bytes> frames;
    for (std::uint16_t i = 0; i < count; ++i) {
      const auto* data = rte_pktmbuf_mtod(packets[i], const std::uint8_t*);
      EXPECT_EQ(packets[i]->port, id_);
      EXPECT_EQ(packets[i]->pkt_len, packets[i]->data_len);
      frames.emplace_back(data, data + packets[i]->pkt_len);
      rte_pktmbuf_free(packets[i]);
    }
    return frames;
  }
  std::vector<Bytes> ReceiveAll() const {
    std::vector<Bytes> all;
    for (auto burst = Receive(); !burst.empty(); burst = Receive())
      all.insert(all.end(), burst.begin(), burst.end());
    return all;
  }
  std::uint16_t Send(std::vector<rte_mbuf*> packets) const {
    const auto count = static_cast<std::uint16_t>(packets.size());
    const std::uint16_t sent = rte_eth_tx_burst(id_, 0, packets.data(), count);
    for (std::size_t i = sent; i < packets.size(); ++i) rte_pktmbuf_free(packets[i]);
    return sent;
  }
  rte_eth_stats Stats() const {
    rte_eth_stats stats{};
    EXPECT_EQ(rte_eth_stats_get(id_, &stats), 0);
    return stats;
  }
  bool LinkUp() const {
    rte_eth_link link{};
    return rte_eth_link_get_nowait(id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
  }

 private:
  static constexpr std::uint16_t kNone = RTE_MAX_ETHPORTS;
  std::uint16_t id_ = kNone;
  bool opened_ = false;
};

class NetMmsgTest : public testing::Test {
 protected:
  static bool StartOnce() {
    static const bool started = [] {
      static const PrivateCopy copy(std::getenv("NET_MMSG"));
      return unshare(CLONE_NEWNET) == 0 && StartTestEal({"-d", copy.path()});
    }();
    return started;
  }
  void SetUp() override {
    UNIS_NEED_ROOT();
    ASSERT_NE(std::getenv("NET_MMSG"), nullptr) << "NET_MMSG must name librte_net_mmsg.so";
    ASSERT_TRUE(StartOnce());
    ASSERT_TRUE(Shell("ip link add dev near type veth peer name far"));
    for (const char* device : {"near", "far"})
      ASSERT_TRUE(
          Shell(fmt::format("echo 1 2>/dev/null >/proc/sys/net/ipv6/conf/{0}/disable_ipv6;"
                            "ip link set {0} mtu 1500 arp off multicast off up",
                            device)));
    pool_.reset(rte_pktmbuf_pool_create("pool", 2047, 0, 0, 2176, SOCKET_ID_ANY));
    ASSERT_TRUE(pool_);
  }
  void TearDown() override {
    if (!pool_) return;
    (void)Shell("ip link delete near 2>/dev/null");
    EXPECT_EQ(rte_mempool_in_use_count(pool_.get()), 0U) << "packets were lost";
    EXPECT_EQ(rte_eth_dev_count_total(), 0);
  }

  rte_mbuf* Packet(const Bytes& frame) const {
    rte_mbuf* packet = rte_pktmbuf_alloc(pool_.get());
    std::copy(frame.begin(), frame.end(),
              reinterpret_cast<std::uint8_t*>(
                  rte_pktmbuf_append(packet, static_cast<std::uint16_t>(frame.size()))));
    return packet;
  }
  std::vector<rte_mbuf*> Packets(std::size_t count, std::size_t bytes = 60) const {
    std::vector<rte_mbuf*> packets;
    for (std::size_t i = 0; i < count; ++i)
      packets.push_back(Packet(Frame(bytes, static_cast<std::uint16_t>(i))));
    return packets;
  }
  // Frames without the driver; by the device's queue, others on it see them, but the queue of a new
  // device drops for a while.
  static UniqueFd Raw(const char* device, bool by_queue = false) {
    UniqueFd socket(::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0));
    const int bypass = by_queue ? 0 : 1;
    EXPECT_EQ(setsockopt(socket.get(), SOL_PACKET, PACKET_QDISC_BYPASS, &bypass, sizeof(bypass)),
              0);
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex(device));
    EXPECT_EQ(bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return socket;
  }
  static void Put(const UniqueFd& socket, const Bytes& frame, std::size_t times = 1) {
    for (std::size_t i = 0; i < times; ++i)
      ASSERT_EQ(write(socket.get(), frame.data(), frame.size()),
                static_cast<ssize_t>(frame.size()));
  }
  // What probing says.
  static std::string Refused(const std::string& arguments) {
    char* text = nullptr;
    std::size_t bytes = 0;
    FILE* log = open_memstream(&text, &bytes);
    rte_openlog_stream(log);
    EXPECT_NE(rte_dev_probe(("net_mmsg_wrong," + arguments).c_str()), 0) << arguments;
    rte_openlog_stream(nullptr);
    std::fclose(log);
    std::string said(text);
    free(text);
    EXPECT_EQ(rte_eth_dev_count_total(), 0) << arguments;
    return said;
  }
  static bool Eventually(const std::function<bool()>& condition) {
    for (int i = 0; i < 5000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  Pool pool_;
};

}  // namespace unis
