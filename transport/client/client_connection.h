// A client's connection to one server.

#ifndef VERBENA_TRANSPORT_CLIENT_CLIENT_CONNECTION_H_
#define VERBENA_TRANSPORT_CLIENT_CLIENT_CONNECTION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/socket_address.h"
#include "transport/client/client_call.h"
#include "transport/client/client_calls.h"
#include "transport/client/client_devices.h"
#include "transport/device/cm_watcher.h"
#include "transport/device/memory_domain.h"
#include "transport/device/poller_device.h"
#include "transport/memory/buffer_pool.h"
#include "transport/polling/poller.h"
#include "transport/polling/task.h"
#include "transport/session/connection_state.h"
#include "transport/verbs/cm_event.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/provider.h"
#include "transport/wire/hello.h"
#include "transport/wire/server_addresses.h"

namespace verbena::transport {

// Owns the memory of one connection, its arenas among it, and its calls. It
// begins to connect when ClientPoller::Connect() makes it; events of the
// connection manager and the poller's ticks take it from step to step. It
// connects once: one that has failed stays so.
//
// Deadlines of calls are kept by the connection as long as somebody polls.
// Confined to the poller's thread, unless a method says otherwise.
class ClientConnection final : private CmEventHandler {
 public:
  // Hears what becomes of a connection. Its methods run as a task of their own
  // on the poller's thread, never inside a call into the connection or another
  // callback of it. They may call anything, also ClientPoller::Close() for this
  // connection, after which nothing more is heard of it.
  class Observer {
   public:
    // Calls may be started. At most once, and not if it was lost before this
    // could be told.
    virtual void OnConnected() = 0;
    // The connection could not connect, was lost (see failure()), or the
    // server is draining it. Called twice if it is lost after it was
    // reported as draining. The end of the last call of a draining
    // connection is not reported.
    virtual void OnUnusable() = 0;

   protected:
    ~Observer() = default;
  };

  // `observer` may be null. Nothing happens before Begin().
  ClientConnection(ClientDevices& devices, const Provider& provider,
                   const base::SocketAddress& address,
                   const EndpointOptions& options, Observer* observer);
  ClientConnection(const ClientConnection&) = delete;
  ClientConnection& operator=(const ClientConnection&) = delete;
  // REQUIRES: closed(), which ClientPoller::Close() sees to.
  ~ClientConnection();

  // Any thread.
  Poller& poller() { return poller_; }

  // Starts a call. Never blocks: a call that finds no credit, slot or memory
  // waits. May end the call from inside, and does so while it connects.
  void Start(ClientCall* call) {
    if (ABSL_PREDICT_FALSE(calls_ == nullptr)) return RefuseSlow(call);
    calls_->Start(call);
  }

  // Ends a call that was started and has not ended with `reason`, which is not
  // OK; the server hears of it. Otherwise nothing.
  void Cancel(ClientCall* call, const absl::Status& reason) {
    if (ABSL_PREDICT_TRUE(calls_ != nullptr)) calls_->Cancel(call, reason);
  }

  // Whether it is not known yet if the connection will be usable().
  bool connecting() const {
    return !failed() && (calls_ == nullptr || calls_->connection().state() ==
                                                  ConnectionState::kConnecting);
  }

  // Whether it could not connect, or is lost and all its calls have ended. Then
  // make another one.
  bool failed() const { return !failure().ok(); }
  const absl::Status& failure() const {
    return calls_ == nullptr ? failure_ : calls_->connection().failure();
  }

  // Whether nobody listened, as failure() says too.
  bool found_nobody() const { return found_nobody_; }

  // Whether the server is shutting down: it has refused the connection for
  // that, or is draining it. There may soon be another server.
  bool server_leaves() const { return server_leaves_ || draining(); }

  // Whether the server takes no new calls here; open ones go on.
  bool draining() const { return calls_ != nullptr && calls_->draining(); }

  // Whether the server asks for the method's name with each call.
  bool wants_method_names() const {
    return calls_ != nullptr && calls_->admission().wants_method_names();
  }

  // Whether calls may be started: the connection is open and not draining.
  bool usable() const {
    return calls_ != nullptr && calls_->connection().usable() && !draining();
  }

  // The addresses that the server has told: none unless
  // EndpointOptions::ask_addresses is set.
  ServerAddresses server_addresses() const {
    return calls_ == nullptr ? ServerAddresses()
                             : calls_->admission().server_addresses();
  }

  // Calls that were started and have not ended.
  uint32_t open_calls() const {
    return calls_ == nullptr ? 0 : calls_->open_calls();
  }

  // Calls that may be open at once; 0 before it is connected.
  size_t max_open_calls() const {
    return calls_ == nullptr ? 0 : calls_->max_open_calls();
  }
  // Whether the next call but one would wait for one of these to end.
  bool nearly_full() const {
    return calls_ != nullptr && calls_->nearly_full();
  }

  // Registered memory, for attachments that go without a copy unless they are
  // sealed; plain memory before there is any.
  BufferSource buffer_source() const {
    return calls_ == nullptr ? BufferSource() : calls_->own_source();
  }

  // Bytes of registered memory, used or not.
  uint64_t arena_bytes() const {
    return memory_ == nullptr ? 0 : memory_->pool().registered_bytes();
  }

  // Empty before it is known. Any thread once it is connected.
  std::string device_name() const {
    return device_ == nullptr ? "" : device_->name();
  }
  // Any thread.
  const std::string& peer() const { return peer_; }

  // --- For the ClientPoller ---

  // Begins to connect.
  void Begin();
  // Whether the connection waits for nothing on its way to be usable().
  bool settled() const { return step_ == Step::kNothing; }
  // Time by which the connection must be usable().
  absl::Time deadline() const { return deadline_; }
  // Fails the connection if its deadline() has passed. Called once a
  // millisecond, and at deadline(), until settled().
  void CheckDeadline(absl::Time now);
  // Ends the connection and its calls for good: the observer hears no more.
  void Close();
  // Whether nothing is posted any more and nothing is called back.
  bool closed() const {
    return !notice_posted_ &&
           (calls_ == nullptr ? failed() : calls_->connection().closed());
  }

 private:
  // The event that the connection waits for.
  enum class Step { kAddress, kRoute, kAccept, kWelcome, kNothing };

  // Tells the observer what has changed.
  class Notice final : public Task {
   public:
    explicit Notice(ClientConnection& connection) : connection_(connection) {}
    void Run() override { connection_.Notify(); }

   private:
    ClientConnection& connection_;
  };

  // --- Connecting: see client_connection_steps.cc ---

  absl::Status ResolveAddress();
  void OnCmEvent(const CmEvent& event) override;
  // Takes the next step after `event`.
  absl::Status Advance(const CmEvent& event);
  absl::Status OnAddress(const CmEvent& event);
  absl::Status OnRoute();
  absl::Status OnAnswer(const CmEvent& event);
  absl::Status MakeConnection();
  // Returns the request for the private data. REQUIRES: MakeConnection().
  ConnectRequest Request() const;
  absl::Status Failure(const CmEvent& event);

  // --- Afterwards ---

  // Ends the connection and its calls; does nothing if it has failed. To be
  // polled until closed().
  void Fail(const absl::Status& reason);
  // Posts the notice.
  void NoteChange();
  void Notify();
  void RefuseSlow(ClientCall* call) const;

  // In the order of dependence.
  ClientDevices& devices_;
  Poller& poller_;  // The devices_'.
  const Provider& provider_;
  const base::SocketAddress address_;
  const EndpointOptions options_;
  const std::string peer_;
  const absl::Time deadline_;  // To be connected by then.

  Observer* observer_;
  Notice notice_{*this};
  bool notice_posted_ = false;
  struct {
    bool connected = false;
    bool failed = false;
    bool draining = false;
  } told_;  // Changes that the observer was told of.

  Step step_ = Step::kAddress;
  bool found_nobody_ = false;
  bool server_leaves_ = false;
  absl::Status failure_;            // While there are no calls_.
  CmWatcher* watcher_ = nullptr;    // Null before the first step.
  std::optional<CmId> id_;          // Until the calls_ have it.
  PollerDevice* device_ = nullptr;  // From the time that it has memory.
  std::unique_ptr<MemoryDomain> memory_;
  std::unique_ptr<ClientCalls> calls_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CLIENT_CLIENT_CONNECTION_H_
