#include "engine/server/service.h"

#include <algorithm>
#include <chrono>

#include "engine/contract/check_limits.h"

namespace unis {
namespace {

// How soon a watch notices that its caller has gone.
constexpr std::chrono::milliseconds kLookEvery{100};

// absl and gRPC use the same codes.
grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

grpc::Status Answer(const absl::Status& result, v1::Empty*) { return ToGrpc(result); }

template <typename T>
grpc::Status Answer(absl::StatusOr<T> result, T* reply) {
  if (!result.ok()) return ToGrpc(result.status());
  *reply = *std::move(result);
  return grpc::Status::OK;
}

template <typename Request, typename Reply, typename Result>
grpc::Status Call(Run& run, Result (Run::*method)(const Request&), const Request* request,
                  Reply* reply) {
  if (auto status = CheckLimits(*request); !status.ok()) return ToGrpc(status);
  return Answer((run.*method)(*request), reply);
}

// One that lasts: it ends early where the caller has gone.
template <typename Request, typename Reply, typename Result>
grpc::Status CallWanted(Run& run, Result (Run::*method)(const Request&, const Run::Wanted&),
                        const grpc::ServerContext* context, const Request* request, Reply* reply) {
  if (auto status = CheckLimits(*request); !status.ok()) return ToGrpc(status);
  return Answer((run.*method)(*request, [context] { return !context->IsCancelled(); }), reply);
}

}  // namespace

grpc::Status EngineService::Deploy(grpc::ServerContext*, const v1::DeployRequest* request,
                                   v1::Empty* reply) {
  return Call(run_, &Run::Deploy, request, reply);
}

grpc::Status EngineService::Apply(grpc::ServerContext*, const v1::DeployRequest* request,
                                  v1::Empty* reply) {
  return Call(run_, &Run::Apply, request, reply);
}

grpc::Status EngineService::Attach(grpc::ServerContext*, const v1::AttachRequest* request,
                                   v1::AttachReply* reply) {
  return Call(run_, &Run::Attach, request, reply);
}

grpc::Status EngineService::Detach(grpc::ServerContext*, const v1::DetachRequest* request,
                                   v1::Empty* reply) {
  return Call(run_, &Run::Detach, request, reply);
}

grpc::Status EngineService::Estimate(grpc::ServerContext* context,
                                     const v1::EstimateRequest* request, v1::EstimateReply* reply) {
  return CallWanted(run_, &Run::Estimate, context, request, reply);
}

grpc::Status EngineService::MeasureSwitchCost(grpc::ServerContext*,
                                              const v1::SwitchCostRequest* request,
                                              v1::SwitchCostReply* reply) {
  return Call(run_, &Run::MeasureSwitchCost, request, reply);
}

grpc::Status EngineService::Start(grpc::ServerContext*, const v1::PolicyRequest* request,
                                  v1::Empty* reply) {
  return Call(run_, &Run::Start, request, reply);
}

grpc::Status EngineService::SetPolicy(grpc::ServerContext*, const v1::PolicyRequest* request,
                                      v1::Empty* reply) {
  return Call(run_, &Run::SetPolicy, request, reply);
}

grpc::Status EngineService::GetStats(grpc::ServerContext*, const v1::StatsRequest* request,
                                     v1::Stats* reply) {
  return Call(run_, &Run::GetStats, request, reply);
}

grpc::Status EngineService::Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                                  grpc::ServerWriter<v1::Stats>* writer) {
  if (auto status = CheckLimits(*request); !status.ok()) return ToGrpc(status);
  using Clock = std::chrono::steady_clock;
  const std::chrono::nanoseconds interval(request->interval_ns());
  v1::StatsRequest wanted;
  wanted.set_latency(request->latency());
  for (auto next = Clock::now();; next = std::max(next + interval, Clock::now())) {
    do {
      const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(next - Clock::now());
      if (!run_.SleepFor(std::clamp<std::chrono::nanoseconds>(left, {}, kLookEvery)))
        return grpc::Status::OK;
      if (context->IsCancelled()) return grpc::Status::CANCELLED;
    } while (Clock::now() < next);
    auto stats = run_.GetStats(wanted);
    if (!stats.ok()) return ToGrpc(stats.status());
    if (!writer->Write(*stats)) return grpc::Status::CANCELLED;
  }
}

grpc::Status EngineService::Measure(grpc::ServerContext* context, const v1::MeasureRequest* request,
                                    v1::MeasureReply* reply) {
  return CallWanted(run_, &Run::Measure, context, request, reply);
}

grpc::Status EngineService::Settle(grpc::ServerContext*, const v1::SettleRequest* request,
                                   v1::Account* reply) {
  return Call(run_, &Run::Settle, request, reply);
}

grpc::Status EngineService::Trace(grpc::ServerContext* context, const v1::TraceRequest* request,
                                  v1::TraceReply* reply) {
  return CallWanted(run_, &Run::Trace, context, request, reply);
}

grpc::Status EngineService::Stop(grpc::ServerContext*, const v1::SettleRequest* request,
                                 v1::Account* reply) {
  return Call(run_, &Run::Stop, request, reply);
}

}  // namespace unis
