#include "functions/monitor.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <tuple>

#include "functions/common/headers.h"
#include "functions/common/report.h"
#include "functions/common/text.h"

namespace unis::functions {
namespace {

Ipv4FlowKey Ipv4Key(const std::uint8_t* frame, const Headers& headers) {
  return {LoadBe32(frame + headers.l3 + 12), LoadBe32(frame + headers.l3 + 16),
          headers.SourcePort(frame), headers.DestinationPort(frame), headers.protocol};
}

Ipv6FlowKey Ipv6Key(const std::uint8_t* frame, const Headers& headers) {
  Ipv6FlowKey key = {};
  std::memcpy(key.source, frame + headers.l3 + 8, sizeof key.source);
  std::memcpy(key.destination, frame + headers.l3 + 24, sizeof key.destination);
  key.source_port = headers.SourcePort(frame);
  key.destination_port = headers.DestinationPort(frame);
  key.protocol = headers.protocol;
  return key;
}

std::string Address(std::uint32_t ipv4) { return FormatIpv4(ipv4); }

std::string Address(const std::uint8_t (&ipv6)[16]) {
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(AF_INET6, ipv6, text, sizeof text);
}

}  // namespace

template <class Key>
void FlowCounters<Key>::Count(const Key* keys, rte_mbuf* const* packets, std::uint16_t count,
                              Traffic& other) {
  std::int32_t positions[kBurst];
  table_.LookupBurst(keys, count, positions);
  for (std::uint16_t i = 0; i < count; ++i) {
    if (positions[i] >= 0) rte_prefetch0(&flows_[static_cast<std::size_t>(positions[i])].traffic);
  }
  for (std::uint16_t i = 0; i < count; ++i) {
    std::int32_t position = positions[i];
    if (position < 0) position = table_.Add(keys[i]);
    if (position < 0) {
      other.Count(packets[i]);
      continue;
    }
    Flow& flow = flows_[static_cast<std::size_t>(position)];
    if (flow.traffic.packets == 0) flow.key = keys[i];
    flow.traffic.Count(packets[i]);
  }
}

void Monitor::AddOptions(OptionTable& table, Settings& settings) {
  table.AddNumber("--max-flows", "N",
                  "flows of each IP version that are told apart; the packets of later ones are\n"
                  "counted together as \"other\". Default: 65536.",
                  FlowTable<Ipv4FlowKey>::kMinCapacity, FlowTable<Ipv4FlowKey>::kMaxCapacity,
                  settings.max_flows);
  table.AddNumber("--top", "N",
                  "print the N flows with the most bytes at the end. Default: 10; 0: none.", 0,
                  1'000'000, settings.top);
  table.AddFile("--csv",
                "write all flows to FILE at the end, those with the most bytes first:\n"
                "src,dst,protocol,src_port,dst_port,packets,bytes.",
                settings.csv_file);
}

// Opens the CSV file: hours later would be too late to find that it cannot be written.
Failure Monitor::Check(Settings& settings) {
  if (settings.csv_file.empty()) return std::nullopt;
  settings.csv.reset(std::fopen(settings.csv_file.c_str(), "w"));
  if (settings.csv != nullptr) return std::nullopt;
  return Error{
      fmt::format("cannot write {}: {}", settings.csv_file.string(), std::strerror(errno))};
}

Result<Monitor> Monitor::Create(Settings settings) {
  auto ipv4 = FlowTable<Ipv4FlowKey>::Create("monitor4", settings.max_flows);
  if (!ipv4) return ipv4.error();
  auto ipv6 = FlowTable<Ipv6FlowKey>::Create("monitor6", settings.max_flows);
  if (!ipv6) return ipv6.error();
  return Monitor(std::move(settings), std::move(*ipv4), std::move(*ipv6));
}

std::uint16_t Monitor::Process(rte_mbuf** packets, std::uint16_t count, Drops&) {
  Ipv4FlowKey keys4[kBurst];
  rte_mbuf* packets4[kBurst];
  std::uint16_t count4 = 0;
  Ipv6FlowKey keys6[kBurst];
  rte_mbuf* packets6[kBurst];
  std::uint16_t count6 = 0;
  PrefetchHeaders(packets, count);
  for (std::uint16_t i = 0; i < count; ++i) {
    const std::uint8_t* const frame = Frame(packets[i]);
    const Headers headers = ParseHeaders(packets[i]);
    if (headers.network == Network::kIpv4) {
      keys4[count4] = Ipv4Key(frame, headers);
      packets4[count4++] = packets[i];
    } else if (headers.network == Network::kIpv6) {
      keys6[count6] = Ipv6Key(frame, headers);
      packets6[count6++] = packets[i];
    } else {
      not_ip_.Count(packets[i]);
    }
  }
  ipv4_.Count(keys4, packets4, count4, other_);
  ipv6_.Count(keys6, packets6, count6, other_);
  return count;
}

std::vector<Monitor::Row> Monitor::Rows() const {
  std::vector<Row> rows;
  const auto append = [&rows](const auto& flows) {
    for (const auto& [key, traffic] : flows) {
      if (traffic.packets == 0) continue;
      rows.push_back({Address(key.source), Address(key.destination), key.protocol, key.source_port,
                      key.destination_port, traffic});
    }
  };
  append(ipv4_.flows());
  append(ipv6_.flows());
  // The order of equals is fixed too, so that two runs can be compared.
  std::ranges::sort(rows, std::less(), [](const Row& row) {
    return std::tuple(~row.traffic.bytes, ~row.traffic.packets, row.source, row.destination,
                      row.protocol, row.source_port, row.destination_port);
  });
  return rows;
}

void Monitor::Report(std::FILE* out) const {
  const std::vector<Row> rows = Rows();
  PrintCounter(out, "flows", rows.size());
  PrintCounter(out, "other_packets", other_.packets);
  PrintCounter(out, "other_bytes", other_.bytes);
  PrintCounter(out, "not_ip_packets", not_ip_.packets);
  PrintCounter(out, "not_ip_bytes", not_ip_.bytes);
  const std::size_t top = std::min<std::size_t>(settings_.top, rows.size());
  if (top > 0) {
    std::fprintf(out, "\nTop %zu of %zu flows by bytes\n%12s %16s  %s\n", top, rows.size(),
                 "packets", "bytes", "flow (source -> destination, protocol)");
  }
  for (std::size_t i = 0; i < top; ++i) {
    const Row& row = rows[i];
    std::fprintf(out, "%12" PRIu64 " %16" PRIu64 "  %s %u -> %s %u, %u\n", row.traffic.packets,
                 row.traffic.bytes, row.source.c_str(), row.source_port, row.destination.c_str(),
                 row.destination_port, row.protocol);
  }
  if (settings_.csv == nullptr) return;
  std::FILE* const csv = settings_.csv.get();
  std::fputs("src,dst,protocol,src_port,dst_port,packets,bytes\n", csv);
  for (const Row& row : rows) {
    std::fprintf(csv, "%s,%s,%u,%u,%u,%" PRIu64 ",%" PRIu64 "\n", row.source.c_str(),
                 row.destination.c_str(), row.protocol, row.source_port, row.destination_port,
                 row.traffic.packets, row.traffic.bytes);
  }
  if (std::fflush(csv) != 0) {
    std::fprintf(stderr, "monitor: cannot write %s: %s\n", settings_.csv_file.c_str(),
                 std::strerror(errno));
  }
}

}  // namespace unis::functions
