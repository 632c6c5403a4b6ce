// The thread that looks up the names of all resolvers of a factory.

#ifndef VERBENA_RPC_RESOLVERS_DNS_WORKER_H_
#define VERBENA_RPC_RESOLVERS_DNS_WORKER_H_

#include <poll.h>

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rpc/resolvers/dns_follower.h"
#include "transport/base/mutex.h"
#include "transport/base/thread_group.h"
#include "transport/base/unique_fd.h"

namespace verbena::internal {

// Polls the sockets of all looks. Thread-safe. Not to be destroyed on its own
// thread.
class DnsWorker {
 public:
  DnsWorker() = default;
  DnsWorker(const DnsWorker&) = delete;
  DnsWorker& operator=(const DnsWorker&) = delete;
  ~DnsWorker();

  // Starts the thread if it does not run. UNAVAILABLE if the system has none.
  absl::Status Start();
  // Follows `follower` until it leaves. REQUIRES: Start() has returned OK.
  void Add(std::shared_ptr<DnsFollower> follower);
  // Has the thread look what is new. REQUIRES: as Add().
  void Wake();

 private:
  // The sockets of one follower: as many as are below the next one's.
  struct Share {
    DnsFollower* follower;
    size_t first;
  };

  void Run();
  // Takes those who come and drops those who leave. Returns false at the end.
  bool TakeNews();
  // Starts the looks that are due, earliest first, as far as there may be more.
  // Returns when the next one is.
  absl::Time StartLooks(absl::Time now);
  // Waits for sockets, the time, or Wake(), and goes on with the looks.
  void Wait(absl::Time until, absl::Time now);

  base::UniqueFd wake_;  // Set before the thread starts.
  std::vector<std::shared_ptr<DnsFollower>> followers_;  // Thread only.

  base::Mutex mutex_;
  std::vector<std::shared_ptr<DnsFollower>> newcomers_ ABSL_GUARDED_BY(mutex_);
  bool runs_ ABSL_GUARDED_BY(mutex_) = false;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  base::ThreadGroup thread_{"verbena-dns"};
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_RESOLVERS_DNS_WORKER_H_
