// Tells clients and load balancers whether a server and its services are fit to
// be called: grpc.health.v1.Health.
//
//   verbena::HealthService health;
//   builder.RegisterService(&health);
//   ...
//   health.SetServingStatus("helloworld.Greeter", true);

#ifndef VERBENA_RPC_SERVICES_HEALTH_SERVICE_H_
#define VERBENA_RPC_SERVICES_HEALTH_SERVICE_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "grpc/health/v1/health.pb.h"
#include "grpc/health/v1/health.verbena.h"
#include "rpc/server_reactor.h"
#include "transport/base/mutex.h"

namespace verbena {

// Behaves as the one that comes with gRPC. At first it knows one name, the
// empty one, which stands for the server as a whole, and that is serving. The
// others are what SetServingStatus() is told, of services or of anything else.
//
// A client that watches takes no thread. All methods may be called from any
// thread. Must outlive its server.
class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  using ServingStatus = grpc::health::v1::HealthCheckResponse::ServingStatus;

  // The name that stands for the server as a whole.
  static constexpr absl::string_view kServer = "";

  // The longest name that a client may ask for, as long as a method's may be:
  // who watches holds memory and makes each change compare names.
  static constexpr size_t kMaxNameBytes = 1024;

  HealthService() = default;
  // REQUIRES: the server is gone.
  ~HealthService() override;

  // Sets the status of `service`, and tells those who watch it. After
  // Shutdown() nothing is serving any more, whatever is set.
  void SetServingStatus(absl::string_view service, bool serving);
  // Sets all names at once that this was ever told of, including the server as
  // a whole.
  void SetServingStatus(bool serving);

  // Returns the status of `service`; SERVICE_UNKNOWN if it was never set.
  ServingStatus GetServingStatus(absl::string_view service) const;

  // Sets all names to not serving, for good. Watchers are told, and then
  // their calls end with UNAVAILABLE. So a server can shut down without a
  // deadline afterwards.
  void Shutdown();

  // As the service: see health.proto.
  ServerUnaryReactor* Check(
      CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request,
      grpc::health::v1::HealthCheckResponse* response) override;
  ServerUnaryReactor* List(
      CallbackServerContext* context,
      const grpc::health::v1::HealthListRequest* request,
      grpc::health::v1::HealthListResponse* response) override;
  ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request) override;

 private:
  class Watcher;
  // By the service that they watch.
  using Watchers = std::multimap<std::string, Watcher*, std::less<>>;

  // As GetServingStatus().
  ServingStatus StatusOf(absl::string_view service) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the status to keep if `serving` is set.
  ServingStatus Told(bool serving) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells each watcher the status of its service unless it knows it.
  void TellAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells `watcher`, or ends its call, if there is reason to. If a message to
  // it is under way, nothing is done: this is called again when that is sent.
  void Tell(Watcher* watcher) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable base::Mutex mutex_;
  std::map<std::string, ServingStatus, std::less<>> statuses_ ABSL_GUARDED_BY(
      mutex_) = {
      {std::string(kServer), grpc::health::v1::HealthCheckResponse::SERVING}};
  Watchers watchers_ ABSL_GUARDED_BY(mutex_);
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace verbena

#endif  // VERBENA_RPC_SERVICES_HEALTH_SERVICE_H_
