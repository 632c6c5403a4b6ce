// A client's path to a server, or to the servers of a service.

#ifndef VERBENA_RPC_CHANNEL_H_
#define VERBENA_RPC_CHANNEL_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/buffer.h"
#include "rpc/channel_options.h"
#include "rpc/channel_state.h"

namespace verbena {

class ChannelCredentials;  // rpc/credentials.h
struct ChannelMetrics;     // rpc/metrics.h

namespace internal {
class ChannelImpl;
class StubAccess;
}  // namespace internal

// Connects when the first call is made, and again when a call finds that the
// connection was lost; attempts that fail are spaced by a growing pause.
//
// If the connection is lost while a request is under way or with the server,
// the call ends with UNAVAILABLE, because the channel can't know whether the
// server ran it. A call that was never sent is started again by itself, as if
// it began now. A call that a server says it did not look at is started again
// once. So servers can be replaced one after the other without a failed call,
// if calls wait for the next one (ClientContext::set_wait_for_ready()).
//
// All methods may be called from any thread, and any number of threads may make
// calls at the same time. While a thread waits in a blocking call it polls for
// other calls too, but it runs no code of the application. Callbacks run on
// threads that the channels of a process share.
//
// Channels of a process share pollers, one a processor, each with two threads:
// thousands of channels cost little more than their connections.
//
// Dropping the last reference ends calls that are still open with CANCELLED,
// and waits until their callbacks have returned; inside a callback it does not
// wait. The destructor never waits for an attempt to connect. A streaming call
// has a reference of its own, so it goes on until it ends or its context
// cancels it.
class Channel {
 public:
  // Use CreateChannel().
  Channel(std::string target,
          std::shared_ptr<const ChannelCredentials> credentials,
          const ChannelOptions& options)
      : target_(std::move(target)),
        credentials_(std::move(credentials)),
        options_(options) {}
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();

  // The target that CreateChannel() was given.
  const std::string& target() const { return target_; }

  // Returns the state. `try_to_connect` makes an idle channel connect without a
  // call, and one that has failed, if its pause is over.
  ChannelState state(bool try_to_connect = false);

  // Connects, and tries again after each failure. Returns false if the channel
  // is not connected at `deadline`. Also returns false if it cannot connect,
  // because the target or the options are not valid, or the process has no
  // descriptors or threads left.
  bool WaitForConnected(absl::Time deadline);

  // The device in use: "soft", "rxe0". Empty while there is no connection.
  // GetMetrics() tells what carries the data, since when, and why.
  std::string device() const;

  // Returns the channel's counters and its present state: see rpc/metrics.h.
  ChannelMetrics GetMetrics() const;

  // Returns memory for attachments of calls on this channel. Memory of the
  // present connection goes to the device without a copy. While there is no
  // connection, or it has no memory left, plain memory is returned. Empty for
  // zero bytes.
  Buffer AllocateBuffer(size_t bytes) const;

 private:
  friend class internal::StubAccess;

  // Null before the first use, and where MakeImpl() has failed.
  internal::ChannelImpl* impl() const {
    return impl_.load(std::memory_order_acquire);
  }
  // Makes the ChannelImpl unless there is one. RESOURCE_EXHAUSTED if the
  // process has no descriptors or threads left; may be tried again.
  absl::StatusOr<internal::ChannelImpl*> MakeImpl();

  const std::string target_;
  const std::shared_ptr<const ChannelCredentials> credentials_;
  const ChannelOptions options_;
  std::atomic<internal::ChannelImpl*> impl_{nullptr};  // Owned; set once.
};

// Makes a channel to `target`: "host:port", "[ipv6]:port", or a service, such
// as "ipv4:10.0.0.1:7471,10.0.0.2:7471", "file:///etc/servers.json", or one
// that ChannelOptions::resolvers knows (docs/services.md). Never fails and
// never blocks: if the target, the options or the server is wrong, the Status
// of the calls says so.
std::shared_ptr<Channel> CreateChannel(
    absl::string_view target, const ChannelOptions& options = ChannelOptions());

// As CreateChannel() above, but with credentials, which the channel
// shows to the server and checks the server's against. The form above
// has InsecureChannelCredentials().
std::shared_ptr<Channel> CreateChannel(
    absl::string_view target, std::shared_ptr<ChannelCredentials> credentials,
    const ChannelOptions& options = ChannelOptions());

}  // namespace verbena

#endif  // VERBENA_RPC_CHANNEL_H_
