// Echo and streams by bare verbs, both sides: what there is to reach.

#ifndef VERBENA_TOOLS_RPC_BENCH_VERBS_LAYER_H_
#define VERBENA_TOOLS_RPC_BENCH_VERBS_LAYER_H_

#include <sys/eventfd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/load/workload.h"
#include "transport/base/socket_address.h"
#include "transport/base/unique_fd.h"
#include "transport/verbs/cm_event.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/event_channel.h"
#include "transport/verbs/provider.h"

namespace verbena::bench {

// Makes a connection for each case to the VerbsServer at `server`, through
// `device` unless that is empty. With `events` both ends sleep between
// messages.
std::unique_ptr<Layer> NewVerbsLayer(const base::SocketAddress& server,
                                     const std::string& device, bool events);

// Answers one client after another, each on a connection of its own that says
// what it wants. Owns a thread, which sleeps while there is no client.
class VerbsServer {
 public:
  // `provider` must outlive it. Port 0 is any free one.
  static absl::StatusOr<std::unique_ptr<VerbsServer>> Start(
      const transport::Provider& provider, const base::SocketAddress& address);
  VerbsServer(const VerbsServer&) = delete;
  VerbsServer& operator=(const VerbsServer&) = delete;
  ~VerbsServer();  // Drops the client.

  uint16_t port() const { return port_; }

 private:
  VerbsServer(const transport::Provider& provider,
              transport::EventChannel channel)
      : provider_(provider), channel_(std::move(channel)) {}

  void Run();
  // Until the client of this CONNECT_REQUEST goes, or the server stops.
  absl::Status Serve(const transport::CmEvent& request);

  const transport::Provider& provider_;
  // Readable when it is to stop.
  const base::UniqueFd stop_{eventfd(0, EFD_CLOEXEC)};
  std::atomic<bool> stopping_{false};
  uint16_t port_ = 0;

  // The thread's alone, once it runs.
  transport::EventChannel channel_;
  std::optional<transport::CmId> listener_;

  std::thread thread_;
};

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_VERBS_LAYER_H_
