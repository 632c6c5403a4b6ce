// Finds out which addresses a target has.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_RESOLUTION_H_
#define VERBENA_RPC_INTERNAL_CLIENT_RESOLUTION_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/channel_options.h"
#include "rpc/internal/client/shared_poller.h"
#include "transport/base/mutex.h"
#include "transport/base/socket_address.h"
#include "transport/polling/poller_threads.h"
#include "transport/verbs/provider.h"

namespace verbena::internal {

// A lookup of a name. It may take as long as the name server does, and so runs
// on the background thread. Destroys itself.
class Resolution final : private transport::ShortTask {
 public:
  struct Endpoint {
    base::SocketAddress address;
    const transport::Provider* provider;  // The one that leads to `address`.
    bool is_rdma = false;
    // See transport::IsCheapToAsk().
    bool is_cheap = false;
    // The next endpoint leads to the same address by TCP, and this one by RDMA;
    // or it is that next one.
    bool has_fallback = false;
    bool is_fallback = false;
    // Why this way was chosen, for people; not set for a fallback.
    absl::string_view why = "";
    // Which of the addresses that were looked up this is: "host:port".
    std::string target = {};

    // "rdma", "tcp", or "shm" for the shared memory of this host.
    absl::string_view fabric() const {
      return is_rdma ? "rdma" : is_cheap ? "shm" : "tcp";
    }
  };
  using Result = absl::StatusOr<std::vector<Endpoint>>;

  // `find` is called by the background thread, and may outlive the channel.
  // `on_done` is called with the poller's ownership held, never inside this
  // function; afterwards the object that is returned is gone.
  static Resolution* Start(SharedPoller* poller, std::function<Result()> find,
                           std::function<void(Result)> on_done);
  Resolution(const Resolution&) = delete;
  Resolution& operator=(const Resolution&) = delete;

  // `on_done` is not to be called. With the poller's ownership held.
  void Abandon();

 private:
  Resolution(SharedPoller* poller, std::function<Result()> find,
             std::function<void(Result)> on_done)
      : poller_(*poller),
        find_(std::move(find)),
        on_done_(std::move(on_done)) {}
  ~Resolution() = default;

  // Looks up on the background thread, then tells the owner of the poller.
  void Run() override;
  void LookUp();
  void Tell();

  SharedPoller& poller_;
  const std::function<Result()> find_;
  const std::function<void(Result)> on_done_;
  Result result_ = std::vector<Endpoint>();
  bool found_ = false;  // Run() tells.

  base::Mutex mutex_;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
};

// Looks up all of `targets`, each "host:port"; an error only if none has an
// endpoint. `device` is the device that is wanted, or empty, and `fabric` as in
// ChannelOptions. May block.
Resolution::Result FindEndpoints(const std::vector<std::string>& targets,
                                 const std::string& device, Fabric fabric);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_RESOLUTION_H_
