// What DPDK's net_af_xdp does, as little of it as there is: an AF_XDP socket on queue 0 of a
// device, with copies, and the BPF program that brings it the packets.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include "engine/base/unique_fd.h"

namespace unis {

// The inodes of the AF_XDP sockets of a process; those that were made later are greater.
inline std::set<ino_t> XdpSocketsOf(pid_t pid) {
  std::set<ino_t> inodes;
  for (const auto& file : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid))) {
    std::array<char, 8> protocol{};
    struct stat status {};
    const char* const path = file.path().c_str();
    if (getxattr(path, "system.sockprotoname", protocol.data(), protocol.size()) == sizeof("XDP") &&
        std::string(protocol.data()) == "XDP" && stat(path, &status) == 0)
      inodes.insert(status.st_ino);
  }
  return inodes;
}

class XdpProgramForTest {
 public:
  static constexpr std::uint32_t kFrameBytes = 2048;

  // `buffers` are offered at first, at most as many as there are `slots` twice.
  XdpProgramForTest(const std::string& device, std::uint32_t slots, std::uint32_t buffers)
      : slots_(slots), frames_(3 * slots) {
    socket_ = UniqueFd(::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
    memory_ = mmap(nullptr, std::size_t{frames_} * kFrameBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    xdp_umem_reg memory{};
    memory.addr = reinterpret_cast<std::uintptr_t>(memory_);
    memory.len = std::uint64_t{frames_} * kFrameBytes;
    memory.chunk_size = kFrameBytes;
    Set(XDP_UMEM_REG, memory);
    Set(XDP_UMEM_FILL_RING, 2 * slots);
    Set(XDP_UMEM_COMPLETION_RING, slots);
    Set(XDP_RX_RING, slots);
    Set(XDP_TX_RING, slots);
    xdp_mmap_offsets at{};
    socklen_t bytes = sizeof(at);
    getsockopt(socket_.get(), SOL_XDP, XDP_MMAP_OFFSETS, &at, &bytes);
    rx = Map(at.rx, slots * sizeof(xdp_desc), XDP_PGOFF_RX_RING);
    tx = Map(at.tx, slots * sizeof(xdp_desc), XDP_PGOFF_TX_RING);
    fill = Map(at.fr, 2 * slots * sizeof(std::uint64_t), XDP_UMEM_PGOFF_FILL_RING);
    done = Map(at.cr, slots * sizeof(std::uint64_t), XDP_UMEM_PGOFF_COMPLETION_RING);
    for (std::uint32_t i = 0; i < buffers; ++i) Offer(std::uint64_t{i} * kFrameBytes);
    const unsigned index = if_nametoindex(device.c_str());
    const sockaddr_xdp address{.sxdp_family = AF_XDP,
                               .sxdp_flags = XDP_COPY | XDP_USE_NEED_WAKEUP,
                               .sxdp_ifindex = index,
                               .sxdp_queue_id = 0,
                               .sxdp_shared_umem_fd = 0};
    bound_ = bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    Redirect(index);
  }
  ~XdpProgramForTest() {
    for (Ring* ring : {&rx, &tx, &fill, &done}) munmap(ring->memory, ring->bytes);
    munmap(memory_, std::size_t{frames_} * kFrameBytes);
  }
  XdpProgramForTest(const XdpProgramForTest&) = delete;

  bool works() const { return bound_ && link_.valid(); }

  // Offers each buffer again, unless `keeps`.
  std::uint32_t Receive(std::uint32_t most, bool keeps = false) {
    std::uint32_t received = 0;
    for (; received < most && *rx.consumer != Load(rx.producer); ++received) {
      const xdp_desc got = rx.Descriptors()[*rx.consumer & (slots_ - 1)];
      Store(rx.consumer, *rx.consumer + 1);
      if (!keeps) Offer(got.addr);
    }
    return received;
  }
  std::uint32_t Send(std::uint32_t count, std::uint32_t bytes = 60) {
    Store(done.consumer, Load(done.producer));
    const std::uint32_t sent = std::min(count, slots_ - (*tx.producer - Load(tx.consumer)));
    for (std::uint32_t i = 0; i < sent; ++i) {
      const std::uint64_t at = std::uint64_t{2 * slots_ + i} * kFrameBytes;
      std::memset(static_cast<char*>(memory_) + at, 0x5a, bytes);
      tx.Descriptors()[(*tx.producer + i) & (slots_ - 1)] = {at, bytes, 0};
    }
    Store(tx.producer, *tx.producer + sent);
    while (Load(tx.consumer) != *tx.producer) {  // at most 32 a call
      if (sendto(socket_.get(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) != 0 && errno != EAGAIN &&
          errno != EBUSY)
        break;
      Store(done.consumer, Load(done.producer));
    }
    return sent;
  }

  struct Ring {
    xdp_desc* Descriptors() const { return reinterpret_cast<xdp_desc*>(first); }
    std::uint32_t *producer, *consumer;
    std::byte* first;
    void* memory;
    std::size_t bytes;
  };
  Ring rx, tx, fill, done;  // the kernel's, for a program that writes what it likes

 private:
  static std::uint32_t Load(const std::uint32_t* at) {
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
  }
  static void Store(std::uint32_t* at, std::uint32_t value) {
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
  }
  template <typename Value>
  void Set(int option, const Value& value) const {
    EXPECT_EQ(setsockopt(socket_.get(), SOL_XDP, option, &value, sizeof(value)), 0) << option;
  }
  Ring Map(const xdp_ring_offset& at, std::size_t of_ring, std::uint64_t where) const {
    const std::size_t bytes = at.desc + of_ring;
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                              socket_.get(), static_cast<off_t>(where));
    EXPECT_NE(memory, MAP_FAILED);
    auto* const begin = static_cast<std::byte*>(memory);
    return {reinterpret_cast<std::uint32_t*>(begin + at.producer),
            reinterpret_cast<std::uint32_t*>(begin + at.consumer), begin + at.desc, memory, bytes};
  }
  void Offer(std::uint64_t buffer) const {
    reinterpret_cast<std::uint64_t*>(fill.first)[*fill.producer & (2 * slots_ - 1)] = buffer;
    Store(fill.producer, *fill.producer + 1);
  }
  static UniqueFd Bpf(bpf_cmd command, bpf_attr attributes) {
    return UniqueFd(static_cast<int>(syscall(SYS_bpf, command, &attributes, sizeof(attributes))));
  }
  // Goes with the descriptor of the link.
  void Redirect(unsigned device) {
    bpf_attr map{};
    map.map_type = BPF_MAP_TYPE_XSKMAP;
    map.key_size = map.value_size = sizeof(int);
    map.max_entries = 1;
    map_ = Bpf(BPF_MAP_CREATE, map);
    const int queue = 0, socket = socket_.get();
    bpf_attr entry{};
    entry.map_fd = static_cast<std::uint32_t>(map_.get());
    entry.key = reinterpret_cast<std::uintptr_t>(&queue);
    entry.value = reinterpret_cast<std::uintptr_t>(&socket);
    bpf_attr updated = entry;
    (void)syscall(SYS_bpf, BPF_MAP_UPDATE_ELEM, &updated, sizeof(updated));
    // return bpf_redirect_map(&map, context->rx_queue_index, XDP_PASS)
    const std::array<bpf_insn, 6> code{{
        {BPF_LDX | BPF_MEM | BPF_W, 2, 1, offsetof(xdp_md, rx_queue_index), 0},
        {BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_FD, 0, map_.get()},
        {0, 0, 0, 0, 0},
        {BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, XDP_PASS},
        {BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map},
        {BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
    }};
    bpf_attr program{};
    program.prog_type = BPF_PROG_TYPE_XDP;
    program.insn_cnt = code.size();
    program.insns = reinterpret_cast<std::uintptr_t>(code.data());
    program.license = reinterpret_cast<std::uintptr_t>("BSD");
    program_ = Bpf(BPF_PROG_LOAD, program);
    bpf_attr link{};
    link.link_create.prog_fd = static_cast<std::uint32_t>(program_.get());
    link.link_create.target_ifindex = device;
    link.link_create.attach_type = BPF_XDP;
    link_ = Bpf(BPF_LINK_CREATE, link);
  }

  std::uint32_t slots_, frames_;
  UniqueFd socket_, map_, program_, link_;
  void* memory_ = nullptr;
  bool bound_ = false;
};

}  // namespace unis
