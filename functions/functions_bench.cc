// What a packet costs in each function without its port: Process() on bursts of 64 packets.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <rte_cycles.h>
#include <rte_mbuf.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "functions/common/bytes.h"
#include "functions/common/checksum.h"
#include "functions/common/headers.h"
#include "functions/dpi.h"
#include "functions/firewall.h"
#include "functions/ipsec.h"
#include "functions/macswap.h"
#include "functions/monitor.h"
#include "functions/nat.h"
#include "functions/router.h"
#include "functions/test_eal.h"
#include "functions/wanopt.h"

namespace unis::functions {
namespace {

constexpr std::uint32_t kSmall = 60, kLarge = 1514;  // bytes of a frame, without FCS

// UDP packets of `flows` flows from 10.0.0.0/8, in bursts. They carry words, so that there is
// something to compress.
class Packets {
 public:
  Packets(std::uint32_t flows, std::uint32_t frame)
      : mbufs_(kBursts * kBurst), frame_(frame), bytes_(mbufs_.size() * frame) {
    if (!StartTestEal()) std::abort();
    pool_.reset(rte_pktmbuf_pool_create("bench", kBursts * kBurst, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
                                        SOCKET_ID_ANY));
    if (pool_ == nullptr) std::abort();
    if (rte_pktmbuf_alloc_bulk(pool_.get(), mbufs_.data(), kBursts * kBurst) != 0) std::abort();
    for (std::uint32_t i = 0; i < mbufs_.size(); ++i) Fill(&bytes_[i * frame_], i % flows);
  }
  ~Packets() { rte_pktmbuf_free_bulk(mbufs_.data(), kBursts * kBurst); }

  // The next burst, as it was at first: a function may have reordered, rewritten or resized it.
  rte_mbuf** Next() {
    next_ = (next_ + 1) % kBursts;
    rte_mbuf** const burst = &mbufs_[next_ * kBurst];
    for (std::uint16_t i = 0; i < kBurst; ++i) {
      rte_pktmbuf_reset(burst[i]);
      std::memcpy(rte_pktmbuf_append(burst[i], static_cast<std::uint16_t>(frame_)),
                  &bytes_[(next_ * kBurst + i) * frame_], frame_);
    }
    return burst;
  }

 private:
  static constexpr std::uint32_t kBursts = 16;
  struct FreePool {
    void operator()(rte_mempool* pool) const { rte_mempool_free(pool); }
  };

  void Fill(std::uint8_t* frame, std::uint32_t flow) const {
    std::memset(frame, 2, kEtherHeader - 2);
    StoreBe16(frame + 12, kEtherIpv4);
    std::uint8_t* const ip = frame + kEtherHeader;
    ip[0] = 0x45;
    StoreBe16(ip + 2, static_cast<std::uint16_t>(frame_ - kEtherHeader));
    ip[8] = 64;
    ip[9] = kUdp;
    StoreBe32(ip + 12, 0x0a000000 + flow);
    StoreBe32(ip + 16, 0x08080000 + flow % 251);
    StoreBe16(ip + 10, static_cast<std::uint16_t>(~OnesSum({ip, kIpv4MinHeader})));
    StoreBe16(ip + 20, static_cast<std::uint16_t>(1024 + flow % 60000));
    StoreBe16(ip + 22, 443);
    static constexpr std::array<std::string_view, 8> kWords = {
        "packet ", "header ", "of ", "the ", "cache ", "a ", "function ", "latency "};
    std::mt19937 random(flow);
    for (std::uint32_t at = kEtherHeader + kIpv4MinHeader + 8; at < frame_;) {
      const std::string_view word = kWords[random() % kWords.size()].substr(0, frame_ - at);
      std::memcpy(frame + at, word.data(), word.size());
      at += static_cast<std::uint32_t>(word.size());
    }
  }

  std::unique_ptr<rte_mempool, FreePool> pool_;
  std::vector<rte_mbuf*> mbufs_;
  std::uint32_t frame_;
  std::vector<std::uint8_t> bytes_;  // of all frames, one after the other
  std::uint32_t next_ = 0;
};

template <class Function>
void Run(benchmark::State& state, typename Function::Settings settings, std::uint32_t flows,
         std::uint32_t frame = kSmall) {
  Packets packets(flows, frame);
  auto function = Function::Create(std::move(settings));
  if (!function) return state.SkipWithError(function.error().message.c_str());
  std::uint64_t cycles = 0;
  for (auto _ : state) {
    rte_mbuf** const burst = packets.Next();
    Drops drops;
    const std::uint64_t begin = rte_rdtsc();
    benchmark::DoNotOptimize(function->Process(burst, kBurst, drops));
    cycles += rte_rdtsc() - begin;
    if (drops.count > 0) return state.SkipWithError("packets were dropped");
  }
  const auto done = static_cast<double>(state.iterations() * kBurst);
  state.counters["tsc_per_packet"] = static_cast<double>(cycles) / done;
}

void BM_Macswap(benchmark::State& state) {
  Run<Macswap>(state, {*PacketCost::Parse(std::to_string(state.range(0)))}, 64);
}
BENCHMARK(BM_Macswap)->Arg(0)->Arg(50)->Arg(150)->Arg(250);

void BM_Firewall(benchmark::State& state) {
  Firewall::Settings settings;
  for (std::uint32_t i = 0; i < state.range(0); ++i) {
    settings.rules.push_back({Action::kDeny, {0xc0000000 + (i << 8), 24}, {}, {}, {}, kTcp});
  }
  Run<Firewall>(state, std::move(settings), 1024);
}
BENCHMARK(BM_Firewall)->Arg(0)->Arg(16)->Arg(1024);

void BM_Router(benchmark::State& state) {
  Router::Settings settings;
  settings.routes.push_back({{0, 0}, {}});
  for (std::uint32_t i = 0; i < state.range(0); ++i) {
    settings.routes.push_back({{0x08080000 + (i << 4), 28}, {}});
  }
  Run<Router>(state, std::move(settings), 1024);
}
BENCHMARK(BM_Router)->Arg(1)->Arg(16);

void BM_Nat(benchmark::State& state) {
  Nat::Settings settings;
  settings.public_address = 0xcb007101;
  Run<Nat>(state, std::move(settings), static_cast<std::uint32_t>(state.range(0)));
}
BENCHMARK(BM_Nat)->Arg(1)->Arg(1024);

void BM_Monitor(benchmark::State& state) {
  Run<Monitor>(state, {}, static_cast<std::uint32_t>(state.range(0)));
}
BENCHMARK(BM_Monitor)->Arg(1)->Arg(1024);

void BM_Dpi(benchmark::State& state) {
  Dpi::Settings settings;
  for (std::uint32_t i = 1; i <= state.range(0); ++i) {
    settings.rules.push_back({.id = i, .pattern = fmt::format("bad{}[a-z]{{2}}thing", i * 7919)});
  }
  settings.matcher.emplace(std::move(*DpiMatcher::Compile(settings.rules, "bench")));
  Run<Dpi>(state, std::move(settings), 1024, static_cast<std::uint32_t>(state.range(1)));
}
BENCHMARK(BM_Dpi)->ArgsProduct({{10, 1000}, {kSmall, kLarge}})->ArgNames({"rules", "frame"});

void BM_Ipsec(benchmark::State& state) {
  Ipsec::Settings settings;
  settings.synthetic = static_cast<std::uint32_t>(state.range(0));
  Run<Ipsec>(state, std::move(settings), 1024, static_cast<std::uint32_t>(state.range(1)));
}
BENCHMARK(BM_Ipsec)
    ->ArgsProduct({{1, 1000}, {kSmall, kLarge}})
    ->ArgNames({"associations", "frame"});

void BM_Wanopt(benchmark::State& state) {
  Run<Wanopt>(state, {.level = static_cast<int>(state.range(0))}, 1024,
              static_cast<std::uint32_t>(state.range(1)));
}
BENCHMARK(BM_Wanopt)->ArgsProduct({{0, 1, 6}, {kSmall, kLarge}})->ArgNames({"level", "frame"});

}  // namespace
}  // namespace unis::functions
BENCHMARK_MAIN();
