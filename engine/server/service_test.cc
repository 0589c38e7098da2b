#include "engine/server/service.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>

#include "engine/base/eal_for_test.h"

namespace unis {
namespace {

// The service on a channel within this process; nothing is deployed.
class ServiceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(StartTestEal()); }  // for the clock
  void SetUp() override {
    run_ = std::make_unique<unis::Run>(
        unis::Run::Options{.service_lcores = {1}, .function_cpus = {1}, .end = {}});
    service_ = std::make_unique<EngineService>(*run_);
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub_ = v1::Engine::NewStub(server_->InProcessChannel({}));
  }
  void TearDown() override { server_->Shutdown(); }

  std::unique_ptr<unis::Run> run_;
  std::unique_ptr<EngineService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Engine::Stub> stub_;
};

TEST_F(ServiceTest, ABrokenLimitIsNamedBeforeTheRunSeesTheMessage) {
  v1::DeployRequest request;
  request.set_run("../etc");
  grpc::ClientContext context;
  v1::Empty reply;
  const auto status = stub_->Deploy(&context, request, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(status.error_message().find("run of DeployRequest"), std::string::npos);
  EXPECT_EQ(run_->GetStats({})->phase(), v1::RUN_PHASE_EMPTY);
}

TEST_F(ServiceTest, WhatIsNotDeployedIsSaid) {
  grpc::ClientContext context;
  v1::PolicyRequest request;
  request.set_policy(v1::POLICY_UNIS);
  v1::Empty reply;
  const auto status = stub_->Start(&context, request, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(), "nothing is deployed yet");
  EXPECT_EQ(context.GetServerTrailingMetadata().count("unisd"), 1u) << "the engine itself refused";
}

TEST_F(ServiceTest, AWatchComesAgainAndAgainUntilTheRunEnds) {
  grpc::ClientContext context;
  v1::WatchRequest request;
  request.set_interval_ns(10'000'000);
  const auto watch = stub_->Watch(&context, request);
  v1::Stats stats;
  std::uint64_t last = 0;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(watch->Read(&stats));
    EXPECT_GT(stats.time_ns(), last);
    last = stats.time_ns();
  }
  run_->Release();
  while (watch->Read(&stats)) {
  }
  EXPECT_TRUE(watch->Finish().ok());
}

TEST_F(ServiceTest, AWatchThatNobodyWantsEnds) {
  grpc::ClientContext context;
  v1::WatchRequest request;
  request.set_interval_ns(3'600'000'000'000);
  const auto watch = stub_->Watch(&context, request);
  v1::Stats stats;
  ASSERT_TRUE(watch->Read(&stats));
  context.TryCancel();
  EXPECT_FALSE(watch->Read(&stats));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

}  // namespace
}  // namespace unis
