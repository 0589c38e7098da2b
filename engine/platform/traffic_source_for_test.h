// A traffic source with chains of rings that nobody serves but the test.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/platform/memory_for_test.h"
#include "engine/platform/traffic_source.h"

namespace unis {

class TrafficSourceTest : public MemoryTest {
 protected:
  void TearDown() override {
    source_.reset();
    for (const auto& chain : chains_) {
      Discard(RingOf(chain->ingress()));
      Discard(RingOf(chain->ends().egresses[0]));
    }
    MemoryTest::TearDown();
    chains_.clear();
  }

  void AddChain(std::uint32_t ring_size) {
    chains_.push_back(MakeChain("chain" + std::to_string(chains_.size()), ring_size));
  }
  static FlowMatch ToPort(std::uint16_t port) {
    return {.src = {}, .dst = {}, .src_port = {}, .dst_port = port, .protocol = {}};
  }
  static Frames Synthetic(const FlowMatch& match = {}) {
    return MakeFrames({.mix = SizeMix::kFixed, .size = 64, .flows = 100}, {match});
  }
  static Classifier OneChain() { return Classifier::Create({{}}).value(); }
  void Run(Classifier classifier, std::vector<Frames> lists, Rate rate) {
    std::vector<TrafficSource::List> classified;
    for (Frames& frames : lists) classified.emplace_back(std::move(frames), classifier);
    source_.emplace(*memory_, chains_, std::move(classifier), std::move(classified), rate);
    ASSERT_TRUE(source_->RunOn(kServiceLcores[0]).ok());
    source_->SetPaused(false);
  }
  std::uint32_t InRing(std::size_t chain) const {
    return rte_ring_count(RingOf(chains_[chain]->ingress()));
  }

  Chains chains_;
  std::optional<TrafficSource> source_;
};

}  // namespace unis
