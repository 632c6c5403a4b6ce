// A server, and a client that sends it whatever frames it likes, on the
// simulated device. The server stays from one input to the next: a connection
// that has ended must have left nothing behind.

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tests/fuzz/descriptors.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/session.h"
#include "tests/fuzz/session_frames.h"
#include "tests/fuzz/session_peer.h"
#include "tests/fuzz/stream_user.h"
#include "transport/base/check.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/limits.h"
#include "transport/base/socket_address.h"
#include "transport/device/cm_watcher.h"
#include "transport/device/poller_device.h"
#include "transport/polling/poller.h"
#include "transport/polling/poller_threads.h"
#include "transport/server/listener.h"
#include "transport/server/server_call.h"
#include "transport/server/server_calls.h"
#include "transport/soft/simulation.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

using fuzz::FuzzInput;
using fuzz::ReadAll;

// Less than a client's arena, and not enough for many requests at once.
constexpr uint64_t kLongestMessage = uint64_t{48} << 10;
constexpr uint64_t kBulkBytes = uint64_t{128} << 10;

EndpointOptions Options() {
  EndpointOptions options;
  options.max_receive_message_bytes = kLongestMessage;
  options.max_bulk_bytes = kBulkBytes;
  return options;
}

class FilledReply final : public ReplyWriter {
 public:
  explicit FilledReply(size_t bytes) : bytes_(bytes) {}
  void WriteReply(uint8_t* out) override { std::memset(out, 'r', bytes_); }
  void OnReplyDone() override { delete this; }

 private:
  const size_t bytes_;
};

// Keeps every call until an input ends it.
class Handler final : public ServerHandler {
 public:
  void OnCall(ServerCall* call) override {
    ReadAll(call->message());
    ReadAll(call->metadata());
    ReadAll(call->attachment().span());
    CHECK(std::find(open_.begin(), open_.end(), call) == open_.end());
    open_.push_back(call);
    if (call->stream() == nullptr) return;
    StreamUser& user = users_[call];
    user.set_stream(call->stream());
    call->stream()->set_owner(&user);
  }
  void OnCancelled(ServerCall* call) override {
    CHECK(call->cancelled());
    CHECK(std::find(open_.begin(), open_.end(), call) != open_.end());
  }

  bool any() const { return !open_.empty(); }
  void FinishOne(FuzzInput& input) {
    if (open_.empty()) return;
    const size_t index = input.Take<uint8_t>() % open_.size();
    ServerCall* const call = open_[index];
    if (call->stream() != nullptr) {
      if (input.Below(4) != 0) return users_[call].Use(input);
      call->stream()->set_owner(nullptr);
      users_.erase(call);
    }
    open_.erase(open_.begin() + static_cast<ptrdiff_t>(index));
    if (call->stream() != nullptr) return Fail(call, input);
    if (call->owns_message()) ReadAll(call->message());
    switch (input.Below(4)) {
      case 0:
        return Fail(call, input);
      case 1: {
        const uint64_t bytes = input.Below(200);
        uint8_t* const out = call->BeginReply(bytes);
        if (out == nullptr) return Fail(call, input);
        std::memset(out, 'p', bytes);
        return call->SendReply();
      }
      case 2:
        return FinishFromBuffer(call, input);
      default:
        return FinishByWriter(call, input);
    }
  }

 private:
  static void Fail(ServerCall* call, FuzzInput& input) {
    ServerCall::Reply reply;
    reply.status = absl::AbortedError(std::string(input.Take<uint8_t>(), 'f'));
    call->Finish(std::move(reply));
  }
  static void FinishFromBuffer(ServerCall* call, FuzzInput& input) {
    const size_t bytes = kFrameReplyBytes + 1 + input.Take<uint16_t>();
    absl::StatusOr<Buffer> buffer = call->AllocateReply(bytes);
    if (!buffer.ok()) return Fail(call, input);
    ServerCall::Reply reply;
    reply.metadata_bytes = input.Below(64);
    reply.message_bytes = bytes - reply.metadata_bytes;
    reply.buffer = *std::move(buffer);
    call->Finish(std::move(reply));
  }
  static void FinishByWriter(ServerCall* call, FuzzInput& input) {
    ServerCall::Reply reply;
    reply.metadata_bytes = input.Below(64);
    reply.message_bytes = TakeLength(input);
    const size_t bytes = reply.metadata_bytes + reply.message_bytes;
    if (bytes > 0) reply.writer = new FilledReply(bytes);
    // Without a draw of their own, so that older inputs mean what they did.
    if (reply.metadata_bytes % 16 == 15) {
      call->SendInitialMetadata(std::string(reply.metadata_bytes * 130, 'i'));
    }
    if (reply.metadata_bytes == 0 && reply.message_bytes % 2 == 1) {
      reply.long_metadata = std::string(3000, 't');
    }
    switch (input.Below(4)) {
      case 0:
        reply.attachment = call->TakeAttachment();
        break;
      case 1: {
        const size_t length = 1 + input.Take<uint16_t>();
        reply.attachment = call->AllocateAttachment(length);
        std::memset(reply.attachment.data(), 'a', length);
        break;
      }
      default:
        break;
    }
    call->Finish(std::move(reply));
  }

  std::vector<ServerCall*> open_;
  std::map<ServerCall*, StreamUser> users_;  // Users of open streams.
};

// Uses the parts of a ServerPoller without its threads.
class Server {
 public:
  Server() : watcher_(*EventChannel::Create(SessionPeer::Device())) {
    poller_->Enter();
    poller_->Add(&watcher_);
    listener_ = *Listener::Create(
        SessionPeer::Device(), "", /*dscp=*/-1,
        [this](IncomingConnection incoming) { Accept(std::move(incoming)); });
    address_ = *listener_->Listen(base::SocketAddress::Loopback(AF_INET, 0),
                                  /*credentials=*/nullptr);
    poller_->Add(listener_.get());
  }

  const base::SocketAddress& address() const { return address_; }
  // Sets EndpointOptions::checksum for later connections.
  void set_checksum(bool checksum) { options_.checksum = checksum; }
  Handler& handler() { return handler_; }
  bool has_connection() const { return calls_ != nullptr; }

  void GoAway() {
    if (calls_ != nullptr) calls_->connection().SendGoAway();
  }
  void Close() {
    if (calls_ == nullptr) return;
    calls_->connection().Close(absl::UnavailableError("the server closes"));
  }

  void Turn() {
    poller_->Sleep(absl::InfinitePast());
    if (calls_ == nullptr || !calls_->connection().closed()) return;
    // The memory of a READ that was never posted ends with the connection: the
    // REQUEST and the frame that closed it came in one train.
    calls_->VisitCalls([](const ServerCall& call) {
      CHECK(absl::string_view(ServerCallStateName(call.state())) ==
            "its request is being read");
    });
    watcher_.Unwatch(calls_->connection().id());
    calls_.reset();
    device_->set_any_closed(false);
    CHECK_EQ(device_->shared_memory().pool().allocated_bytes(), 0);
  }

 private:
  // As ServerPoller::TryAccept().
  void Accept(IncomingConnection incoming) {
    if (calls_ != nullptr) return;
    CHECK(incoming.id.MigrateTo(watcher_.channel()).ok());
    if (device_ == nullptr) MakeDevice(incoming.id.context());
    MemoryDomain& memory = device_->shared_memory();
    CHECK(device_->Reserve(memory).ok());
    ibv_qp_init_attr attributes = device_->QpAttributes(memory);
    CHECK(incoming.id.CreateQp(memory.pd().get(), &attributes).ok());
    calls_ = std::make_unique<ServerCalls>(
        *poller_, threads_, *device_, std::move(incoming.id),
        PollerDevice::QueuePair{attributes.cap.max_inline_data, nullptr},
        options_, incoming.request, AdmissionTerms(), handler_);
    Connection& connection = calls_->connection();
    watcher_.Watch(connection.id(), &connection);
    const std::string reply =
        EncodeConnectReply({Connection::OwnLimits(options_)});
    ConnectionParameters parameters;
    parameters.private_data = {reinterpret_cast<const uint8_t*>(reply.data()),
                               reply.size()};
    parameters.initiator_depth =
        std::min<uint8_t>(incoming.initiator_depth, kReadDepth);
    parameters.rnr_retry_count = kRnrRetries;
    absl::Status status = connection.id().Accept(parameters);
    if (status.ok()) status = calls_->Begin();
    if (!status.ok()) connection.Close(status);
  }

  void MakeDevice(ibv_context* context) {
    PollerDevice::Options options;
    options.max_connections = 4;
    BufferPool::Options& pool = options.shared_pool.emplace();
    pool.access = IBV_ACCESS_LOCAL_WRITE;
    pool.first_region_bytes = kBulkBytes;
    pool.max_bytes = options_.max_bulk_bytes;
    pool.max_regions = UINT16_MAX;
    pool.largest_bytes = options_.max_receive_message_bytes;
    device_ = *PollerDevice::Create(SessionPeer::Device(), context, options);
    poller_->Add(device_.get());
  }

  EndpointOptions options_ = Options();
  Handler handler_;
  const std::unique_ptr<Poller> poller_ = *Poller::Create();
  PollerThreads threads_{"fuzz", &poller_->ownership(), [] {}};
  CmWatcher watcher_;
  std::unique_ptr<Listener> listener_;
  base::SocketAddress address_;
  std::unique_ptr<PollerDevice> device_;
  std::unique_ptr<ServerCalls> calls_;
};

class ServerSession final : public Session {
 public:
  ServerSession(soft::Simulation& simulation, Server& server, FuzzInput input)
      : Session(simulation, input), server_(server) {
    subjects_.call_ids = {0, 1, 2, 3, 0x10000, 0x10001, 0x20000, 0xffff};
    server_.set_checksum(setup_.subject_wants_sums);
  }

 private:
  void TurnSubject() override { server_.Turn(); }

  bool Connect() override {
    if (!peer_.Resolve(server_.address())) return false;
    for (int i = 0; i < 10 && !peer_.resolved(); ++i) Turn();
    CHECK(peer_.resolved());
    subjects_.arena = peer_.arena();
    ConnectRequest request = {peer_.TakeLimits(input_), peer_.arena()};
    std::string hello = EncodeConnectRequest(request);
    if (input_.Below(32) == 0) TakeDamage(input_, &hello);
    hello.resize(std::min(hello.size(), kConnectPrivateBytesMax));
    if (!peer_.Connect(hello)) return false;
    for (int i = 0; i < 20 && !peer_.established() && !peer_.ended(); ++i) {
      Turn();
    }
    if (!peer_.established()) return false;
    Greet(FrameType::kHello);
    return true;
  }

  void Step() override {
    switch (input_.Below(16)) {
      case 0:
      case 1:
        return server_.handler().FinishOne(input_);
      case 2:
        return Overwrite();
      case 3:
        if (input_.Below(8) != 0) return Turn();
        return Write();
      case 4:
        if (input_.Below(8) == 0) server_.GoAway();
        return;
      case 5:
        if (input_.Below(16) == 0) server_.Close();
        if (input_.Below(16) == 0) peer_.Disconnect();
        return;
      case 6:
        return Turn(static_cast<int>(input_.Below(8)));
      default:
        peer_.SendFrames(input_, subjects_);
    }
  }

  // Writes to memory of the server, which no client may do.
  void Write() {
    const ibv_wr_opcode opcode =
        input_.Bool() ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    const auto address = input_.Take<uint32_t>();
    const auto rkey = input_.Take<uint32_t>();
    peer_.PostRdma(opcode, address, rkey, input_.Take<uint16_t>());
  }

  // Has the client write to its own arena, whatever it has lent of it.
  void Overwrite() {
    const uint32_t at = input_.Take<uint16_t>();
    const absl::Span<const uint8_t> bytes = input_.Bytes(input_.Below(32));
    const size_t length =
        std::min<size_t>(bytes.size(), SessionPeer::kArenaBytes - at);
    if (length > 0) std::memcpy(peer_.memory() + at, bytes.data(), length);
  }

  // The connection ends soon, and every call with it.
  void End() override {
    peer_.Disconnect();
    for (int i = 0; i < 200 && server_.has_connection(); ++i) {
      while (server_.handler().any()) server_.handler().FinishOne(input_);
      Turn();
    }
    CHECK(!server_.has_connection());
    CHECK(!server_.handler().any());
  }

  Server& server_;
  FrameSubjects subjects_;
};

}  // namespace
}  // namespace verbena::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace transport = verbena::transport;
  static auto& simulation = verbena::soft::Simulation::Begin();
  static auto& server = *new transport::Server;
  transport::ServerSession(simulation, server, {data, size}).Run();
  verbena::fuzz::CheckFewDescriptors();
  return 0;
}
