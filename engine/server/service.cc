#include "engine/server/service.h"

#include <algorithm>
#include <chrono>

#include "engine/contract/check_limits.h"

namespace unis {
namespace {

// How soon a watch notices that its caller has gone.
constexpr std::chrono::milliseconds kLookEvery{100};

// absl and gRPC use the same codes. The metadata tells a client that the engine itself refused:
// gRPC makes UNAVAILABLE and DEADLINE_EXCEEDED where no engine answers.
grpc::Status ToGrpc(grpc::ServerContext* context, const absl::Status& status) {
  if (!status.ok()) context->AddTrailingMetadata("unisd", "refused");
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

grpc::Status Answer(grpc::ServerContext* context, const absl::Status& result, v1::Empty*) {
  return ToGrpc(context, result);
}

template <typename T>
grpc::Status Answer(grpc::ServerContext* context, absl::StatusOr<T> result, T* reply) {
  if (!result.ok()) return ToGrpc(context, result.status());
  *reply = *std::move(result);
  return grpc::Status::OK;
}

template <typename Request, typename Reply, typename Result>
grpc::Status Call(Run& run, Result (Run::*method)(const Request&), grpc::ServerContext* context,
                  const Request* request, Reply* reply) {
  if (auto status = CheckLimits(*request); !status.ok()) return ToGrpc(context, status);
  return Answer(context, (run.*method)(*request), reply);
}

// One that lasts: it ends early where the caller has gone.
template <typename Request, typename Reply, typename Result>
grpc::Status CallWanted(Run& run, Result (Run::*method)(const Request&, const Run::Wanted&),
                        grpc::ServerContext* context, const Request* request, Reply* reply) {
  if (auto status = CheckLimits(*request); !status.ok()) return ToGrpc(context, status);
  const auto wanted = [context] { return !context->IsCancelled(); };
  return Answer(context, (run.*method)(*request, wanted), reply);
}

}  // namespace

grpc::Status EngineService::Deploy(grpc::ServerContext* context, const v1::DeployRequest* request,
                                   v1::Empty* reply) {
  return Call(run_, &Run::Deploy, context, request, reply);
}

grpc::Status EngineService::Apply(grpc::ServerContext* context, const v1::DeployRequest* request,
                                  v1::Empty* reply) {
  return Call(run_, &Run::Apply, context, request, reply);
}

grpc::Status EngineService::Attach(grpc::ServerContext* context, const v1::AttachRequest* request,
                                   v1::AttachReply* reply) {
  return Call(run_, &Run::Attach, context, request, reply);
}

grpc::Status EngineService::Detach(grpc::ServerContext* context, const v1::DetachRequest* request,
                                   v1::Empty* reply) {
  return Call(run_, &Run::Detach, context, request, reply);
}

grpc::Status EngineService::Estimate(grpc::ServerContext* context,
                                     const v1::EstimateRequest* request, v1::EstimateReply* reply) {
  return CallWanted(run_, &Run::Estimate, context, request, reply);
}

grpc::Status EngineService::MeasureSwitchCost(grpc::ServerContext* context,
                                              const v1::SwitchCostRequest* request,
                                              v1::SwitchCostReply* reply) {
  return Call(run_, &Run::MeasureSwitchCost, context, request, reply);
}

grpc::Status EngineService::Start(grpc::ServerContext* context, const v1::PolicyRequest* request,
                                  v1::Empty* reply) {
  return Call(run_, &Run::Start, context, request, reply);
}

grpc::Status EngineService::SetPolicy(grpc::ServerContext* context,
                                      const v1::PolicyRequest* request, v1::Empty* reply) {
  return Call(run_, &Run::SetPolicy, context, request, reply);
}

grpc::Status EngineService::GetStats(grpc::ServerContext* context, const v1::StatsRequest* request,
                                     v1::Stats* reply) {
  return Call(run_, &Run::GetStats, context, request, reply);
}

grpc::Status EngineService::Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                                  grpc::ServerWriter<v1::Stats>* writer) {
  if (auto status = CheckLimits(*request); !status.ok()) return ToGrpc(context, status);
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
    if (!stats.ok()) return ToGrpc(context, stats.status());
    if (!writer->Write(*stats)) return grpc::Status::CANCELLED;
  }
}

grpc::Status EngineService::Measure(grpc::ServerContext* context, const v1::MeasureRequest* request,
                                    v1::MeasureReply* reply) {
  return CallWanted(run_, &Run::Measure, context, request, reply);
}

grpc::Status EngineService::Settle(grpc::ServerContext* context, const v1::SettleRequest* request,
                                   v1::Account* reply) {
  return Call(run_, &Run::Settle, context, request, reply);
}

grpc::Status EngineService::Trace(grpc::ServerContext* context, const v1::TraceRequest* request,
                                  v1::TraceReply* reply) {
  return CallWanted(run_, &Run::Trace, context, request, reply);
}

grpc::Status EngineService::Stop(grpc::ServerContext* context, const v1::SettleRequest* request,
                                 v1::Account* reply) {
  return Call(run_, &Run::Stop, context, request, reply);
}

}  // namespace unis
