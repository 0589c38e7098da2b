// What a packet costs in each function without its port: Process() on bursts of 64 packets.
#include <benchmark/benchmark.h>
#include <rte_cycles.h>
#include <rte_mbuf.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "functions/common/bytes.h"
#include "functions/common/checksum.h"
#include "functions/common/headers.h"
#include "functions/firewall.h"
#include "functions/macswap.h"
#include "functions/monitor.h"
#include "functions/nat.h"
#include "functions/router.h"
#include "functions/test_eal.h"

namespace unis::functions {
namespace {

constexpr std::uint32_t kFrame = 60;           // bytes: the smallest frame, without FCS
constexpr std::uint32_t kKeptAt = kFrame - 8;  // payload: source address and port, for Next()

// 64 B UDP packets of `flows` flows from 10.0.0.0/8, in bursts.
class Packets {
 public:
  explicit Packets(std::uint32_t flows) : mbufs_(kBursts * kBurst) {
    if (!StartTestEal()) std::abort();
    pool_.reset(rte_pktmbuf_pool_create("bench", kBursts * kBurst, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
                                        SOCKET_ID_ANY));
    if (pool_ == nullptr) std::abort();
    if (rte_pktmbuf_alloc_bulk(pool_.get(), mbufs_.data(), kBursts * kBurst) != 0) std::abort();
    for (std::uint32_t i = 0; i < mbufs_.size(); ++i) Fill(mbufs_[i], i % flows);
  }
  ~Packets() { rte_pktmbuf_free_bulk(mbufs_.data(), kBursts * kBurst); }

  // The next burst, as it was at first: a function may have reordered or rewritten it.
  rte_mbuf** Next() {
    next_ = (next_ + 1) % kBursts;
    rte_mbuf** const burst = &mbufs_[next_ * kBurst];
    for (std::uint16_t i = 0; i < kBurst; ++i) {
      std::uint8_t* const ip = Frame(burst[i]) + kEtherHeader;
      StoreBe32(ip + 12, LoadBe32(Frame(burst[i]) + kKeptAt));
      StoreBe16(ip + 20, LoadBe16(Frame(burst[i]) + kKeptAt + 4));
      ip[8] = 64;
      StoreBe16(ip + 10, 0);
      StoreBe16(ip + 10, static_cast<std::uint16_t>(~OnesSum({ip, kIpv4MinHeader})));
    }
    return burst;
  }

 private:
  static constexpr std::uint32_t kBursts = 16;
  struct FreePool {
    void operator()(rte_mempool* pool) const { rte_mempool_free(pool); }
  };

  static void Fill(rte_mbuf* packet, std::uint32_t flow) {
    rte_pktmbuf_append(packet, kFrame);
    std::uint8_t* const frame = Frame(packet);
    std::memset(frame, 2, kEtherHeader - 2);
    StoreBe16(frame + 12, kEtherIpv4);
    std::uint8_t* const ip = frame + kEtherHeader;
    std::memset(ip, 0, kFrame - kEtherHeader);
    ip[0] = 0x45;
    StoreBe16(ip + 2, kFrame - kEtherHeader);
    ip[9] = kUdp;
    StoreBe32(ip + 16, 0x08080000 + flow % 251);
    StoreBe16(ip + 22, 443);
    StoreBe32(frame + kKeptAt, 0x0a000000 + flow);
    StoreBe16(frame + kKeptAt + 4, static_cast<std::uint16_t>(1024 + flow % 60000));
  }

  std::unique_ptr<rte_mempool, FreePool> pool_;
  std::vector<rte_mbuf*> mbufs_;
  std::uint32_t next_ = 0;
};

template <class Function>
void Run(benchmark::State& state, typename Function::Settings settings, std::uint32_t flows) {
  Packets packets(flows);
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

}  // namespace
}  // namespace unis::functions
BENCHMARK_MAIN();
