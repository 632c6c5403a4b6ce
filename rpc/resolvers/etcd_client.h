// Chooses among the end points of a cluster, and makes calls to one of them.

#ifndef VERBENA_RPC_RESOLVERS_ETCD_CLIENT_H_
#define VERBENA_RPC_RESOLVERS_ETCD_CLIENT_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/message_lite.h"
#include "rpc/resolvers/etcd_loop.h"
#include "rpc/resolvers/etcd_options.h"

namespace verbena::internal {

// Connects to one end point at a time. Whoever uses it calls Fail() when the
// end point does not do its work, and is told when the next one is there. Loop
// thread only, but for the constructor.
class EtcdClient {
 public:
  // Called when calls can be made: after Connect(), and after each Fail().
  using OnReady = std::function<void()>;
  // Called when each end point has failed since the last success, with the
  // words of the last one and the pause until the next attempt.
  using OnFailure = std::function<void(const absl::Status&)>;

  EtcdClient(EtcdLoop& loop, EtcdOptions options, OnReady on_ready,
             OnFailure on_failure);

  // Connects to the next end point now, without a pause. A call that is under
  // way is given up.
  void Connect();
  // Gives the end point up, because of `why`.
  void Fail(const absl::Status& why);
  // The end point has done its work.
  void Succeed();
  // Gives up all that is under way: nothing is called any more.
  void Stop();

  // Makes a call, and gives up the one before if it is under way. REQUIRES:
  // OnReady was called, and Fail() was not since.
  template <typename Response>
  void Call(const char* method, const google::protobuf::MessageLite& request,
            std::function<void(absl::StatusOr<Response>)> on_reply) {
    CallFor(options_.request_timeout, method, request, std::move(on_reply));
  }
  // As Call(), for at most `timeout`.
  template <typename Response>
  void CallFor(absl::Duration timeout, const char* method,
               const google::protobuf::MessageLite& request,
               std::function<void(absl::StatusOr<Response>)> on_reply) {
    call_ = connection_->Call(method, request.SerializeAsString(), timeout,
                              [on_reply = std::move(on_reply), method](
                                  const absl::StatusOr<std::string>& bytes) {
                                Response response;
                                if (!bytes.ok()) {
                                  on_reply(bytes.status());
                                } else if (!response.ParseFromString(*bytes)) {
                                  on_reply(absl::InternalError(absl::StrCat(
                                      "the reply of ", method, " is damaged")));
                                } else {
                                  on_reply(std::move(response));
                                }
                              });
  }
  EtcdConnection& connection() { return *connection_; }

  const EtcdOptions& options() const { return options_; }
  size_t end_points() const { return options_.end_points.size(); }

 private:
  void Authenticate();
  const std::string& end_point() const {
    return options_.end_points[next_ % options_.end_points.size()];
  }

  EtcdLoop& loop_;
  const EtcdOptions options_;
  const OnReady on_ready_;
  const OnFailure on_failure_;
  std::minstd_rand random_;
  size_t next_;          // The end point in use, modulo their number.
  size_t failures_ = 0;  // In a row.
  absl::Duration backoff_ = absl::ZeroDuration();
  // When the end point first did its work; the infinite future: it has not yet.
  absl::Time succeeded_ = absl::InfiniteFuture();
  std::unique_ptr<EtcdConnection> connection_;
  std::unique_ptr<EtcdPending> call_;
  std::unique_ptr<EtcdPending> pause_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_RESOLVERS_ETCD_CLIENT_H_
