// Four libraries beside the main one: a server that knows its clients by a
// secret, says that it is healthy, and lets them ask for nothing else.

#include <iostream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.verbena.h"
#include "verbena/authorization/authorization_policy_provider.h"
#include "verbena/credentials/shared_secret.h"
#include "verbena/credentials/tls.h"
#include "verbena/credentials/tls_files.h"
#include "verbena/rpc.h"
#include "verbena/services/health_service.h"
#include "verbena/services/reflection_service.h"

namespace {

using grpc::health::v1::HealthCheckResponse;

absl::Status Run() {
  // Without files nobody is asked for a certificate, but the library is there.
  if (!verbena::ChannelCredentialsFromFiles({}).ok() ||
      verbena::TlsServerCredentials({}).ok()) {
    return absl::InternalError("TLS is not as it should be");
  }
  const std::string secret(32, 's');
  auto keys = std::make_shared<verbena::SharedSecretKeys>();
  absl::Status status = keys->Replace({{"november", secret}});
  if (!status.ok()) return status;
  auto policy = verbena::StaticDataAuthorizationPolicyProvider::Create(R"({
      "name": "consumer", "allow_rules": [{
          "name": "checks", "source": {"principals": ["november"]},
          "request": {"paths": ["/grpc.health.v1.Health/Check"]}}]})");
  if (!policy.ok()) return policy.status();
  verbena::HealthService health;
  verbena::ReflectionService reflection;
  int port = 0;
  verbena::ServerBuilder builder;
  builder
      .AddListeningPort("127.0.0.1:0",
                        verbena::SharedSecretServerCredentials(keys), &port)
      .SetAuthorizationPolicyProvider(*policy)
      .RegisterService(&health)
      .RegisterService(&reflection);
  absl::StatusOr<std::unique_ptr<verbena::Server>> server =
      builder.BuildAndStart();
  if (!server.ok()) return server.status();

  std::unique_ptr<grpc::health::v1::Health::Stub> stub =
      grpc::health::v1::Health::NewStub(verbena::CreateChannel(
          absl::StrCat("127.0.0.1:", port),
          verbena::SharedSecretCredentials("november", secret)));
  verbena::ClientContext context;
  HealthCheckResponse response;
  status = stub->Check(&context, {}, &response);
  if (!status.ok()) return status;
  std::cout << HealthCheckResponse::ServingStatus_Name(response.status())
            << std::endl;
  grpc::health::v1::HealthListResponse list;
  status = stub->List(&context, {}, &list);
  return absl::IsPermissionDenied(status)
             ? absl::OkStatus()
             : absl::InternalError("The policy does not hold.");
}

}  // namespace

int main() {
  const absl::Status status = Run();
  if (!status.ok()) std::cerr << status << std::endl;
  return status.ok() ? 0 : 1;
}
