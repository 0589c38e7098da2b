#include "engine/server/service.h"

#include <signal.h>
#include <unistd.h>

namespace unis {
namespace {

// absl and gRPC use the same codes.
grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

template <typename T>
grpc::Status Answer(absl::StatusOr<T> result, T* reply) {
  if (!result.ok()) return ToGrpc(result.status());
  *reply = *std::move(result);
  return grpc::Status::OK;
}

Nanoseconds Timeout(const v1::SettleRequest& request) {
  return static_cast<Nanoseconds>(request.timeout_ns());
}

}  // namespace

grpc::Status EngineService::Deploy(grpc::ServerContext*, const v1::DeployRequest* request,
                                   v1::DeployReply* reply) {
  return Answer(engine_.Deploy(*request), reply);
}

grpc::Status EngineService::Attach(grpc::ServerContext*, const v1::AttachRequest* request,
                                   v1::AttachReply* reply) {
  return Answer(engine_.Attach(*request), reply);
}

grpc::Status EngineService::Estimate(grpc::ServerContext*, const v1::EstimateRequest* request,
                                     v1::EstimateReply* reply) {
  return Answer(engine_.Estimate(*request), reply);
}

grpc::Status EngineService::MeasureSwitchCost(grpc::ServerContext*,
                                              const v1::SwitchCostRequest* request,
                                              v1::SwitchCostReply* reply) {
  return Answer(engine_.MeasureSwitchCost(*request), reply);
}

grpc::Status EngineService::Start(grpc::ServerContext*, const v1::StartRequest* request,
                                  v1::Empty*) {
  return ToGrpc(engine_.Start(request->policy()));
}

grpc::Status EngineService::SetPolicy(grpc::ServerContext*, const v1::SetPolicyRequest* request,
                                      v1::Empty*) {
  return ToGrpc(engine_.SetPolicy(request->policy()));
}

grpc::Status EngineService::GetStats(grpc::ServerContext*, const v1::StatsRequest* request,
                                     v1::Stats* reply) {
  return Answer(engine_.GetStats(request->reset_latency()), reply);
}

grpc::Status EngineService::Measure(grpc::ServerContext*, const v1::MeasureRequest* request,
                                    v1::MeasureReply* reply) {
  return Answer(engine_.Measure(*request), reply);
}

grpc::Status EngineService::Settle(grpc::ServerContext*, const v1::SettleRequest* request,
                                   v1::Account* reply) {
  return Answer(engine_.Settle(Timeout(*request)), reply);
}

grpc::Status EngineService::Trace(grpc::ServerContext*, const v1::TraceRequest* request,
                                  v1::TraceReply* reply) {
  return Answer(engine_.Trace(static_cast<Nanoseconds>(request->duration_ns())), reply);
}

grpc::Status EngineService::Stop(grpc::ServerContext*, const v1::SettleRequest* request,
                                 v1::Account* reply) {
  const grpc::Status status = Answer(engine_.Stop(Timeout(*request)), reply);
  if (status.ok()) kill(getpid(), SIGTERM);  // the shutdown lets this call answer first
  return status;
}

}  // namespace unis
