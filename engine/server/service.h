// The contract's gRPC service: holds each message against its limits, hands it to the run and its
// answer back.
#pragma once

#include "engine/run/run.h"
#include "unis/v1/engine.grpc.pb.h"

namespace unis {

class EngineService final : public v1::Engine::Service {
 public:
  explicit EngineService(Run& run) : run_(run) {}

  grpc::Status Deploy(grpc::ServerContext*, const v1::DeployRequest*, v1::Empty*) override;
  grpc::Status Apply(grpc::ServerContext*, const v1::DeployRequest*, v1::Empty*) override;
  grpc::Status Attach(grpc::ServerContext*, const v1::AttachRequest*, v1::AttachReply*) override;
  grpc::Status Detach(grpc::ServerContext*, const v1::DetachRequest*, v1::Empty*) override;
  grpc::Status Estimate(grpc::ServerContext*, const v1::EstimateRequest*,
                        v1::EstimateReply*) override;
  grpc::Status MeasureSwitchCost(grpc::ServerContext*, const v1::SwitchCostRequest*,
                                 v1::SwitchCostReply*) override;
  grpc::Status Start(grpc::ServerContext*, const v1::PolicyRequest*, v1::Empty*) override;
  grpc::Status SetPolicy(grpc::ServerContext*, const v1::PolicyRequest*, v1::Empty*) override;
  grpc::Status GetStats(grpc::ServerContext*, const v1::StatsRequest*, v1::Stats*) override;
  grpc::Status Watch(grpc::ServerContext*, const v1::WatchRequest*,
                     grpc::ServerWriter<v1::Stats>*) override;
  grpc::Status Measure(grpc::ServerContext*, const v1::MeasureRequest*, v1::MeasureReply*) override;
  grpc::Status Settle(grpc::ServerContext*, const v1::SettleRequest*, v1::Account*) override;
  grpc::Status Trace(grpc::ServerContext*, const v1::TraceRequest*, v1::TraceReply*) override;
  grpc::Status Stop(grpc::ServerContext*, const v1::SettleRequest*, v1::Account*) override;

 private:
  Run& run_;
};

}  // namespace unis
