#include "transport/server/server_calls.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {
namespace {

// How soon memory that was short is looked for again: other connections of the
// device give it back without telling.
constexpr absl::Duration kMemoryRetry = absl::Milliseconds(1);

// How often to look whether a client's credentials were withdrawn.
constexpr absl::Duration kWithdrawalLook = absl::Seconds(1);

// Memory that a call keeps for messages that come beside large attachments,
// which are mostly a few fields. Each call of a connection may keep so much.
constexpr size_t kHeldBytesKept = 512;

}  // namespace

ServerCalls::ServerCalls(Poller& poller, PollerThreads& threads,
                         PollerDevice& device, CmId id,
                         PollerDevice::QueuePair queue_pair,
                         const EndpointOptions& options,
                         const ConnectRequest& request,
                         std::shared_ptr<const ServerCredentials> credentials,
                         ServerHandler& handler)
    : handler_(handler),
      threads_(threads),
      hello_deadline_(base::Now() + options.connect_timeout),
      calls_(options.max_open_calls),
      streams_(connection_, *this),
      account_(device.shared_memory().pool().OpenAccount()),
      parts_watch_(options.stall_timeout),
      credits_watch_(options.stall_timeout),
      sends_watch_(options.stall_timeout),
      leases_watch_(options.stall_timeout),
      connection_(poller, device, device.shared_memory(), std::move(id),
                  std::move(queue_pair), options, /*access=*/0, *this) {
  if (device.limits().iwarp) {
    transfers_.RegisterSinks(device.shared_memory().pd());
  }
  connection_.SetPeerLimits(request.limits);
  // Decoding has checked that it does not wrap around.
  CHECK(arenas_.Add(0, request.arena).ok());
  if (credentials == nullptr) return;
  admission_ = std::make_unique<Admission>();
  admission_->credentials = std::move(credentials);
  admission_->request = request;
}

ServerCalls::~ServerCalls() {
  CHECK_EQ(handling_, 0u);
  connection_.DestroyQueuePair();
  NoteTransfer(-transfer_bytes_);  // Those that were never posted.
}

void ServerCalls::HandleArena(absl::Span<const uint8_t> frame) {
  const ArenaHeader header = LoadHeader<ArenaHeader>(frame);
  const absl::Status status =
      header.bytes == 0
          ? arenas_.Remove(header.index)
          : arenas_.Add(header.index,
                        {header.address, header.bytes, header.rkey});
  if (!status.ok()) connection_.ProtocolError(status.message());
}

void ServerCalls::HandleCancel(absl::Span<const uint8_t> frame) {
  const FrameHeader header = LoadHeader<FrameHeader>(frame);
  ServerCall* const call = FindCall(header.call_id);
  // Its RESPONSE may have crossed the CANCEL.
  if (call == nullptr || call->state_ == State::kFree ||
      call->call_id_ != header.call_id) {
    return;
  }
  call->cancelled_.store(true, std::memory_order_relaxed);
  switch (call->state_) {
    case State::kHandling:
      CloseStream(call);
      handler_.OnCancelled(call);
      return;
    case State::kDraining:
      FailDraining(call, absl::CancelledError("the client cancelled the call"));
      return;
    case State::kAwaitsMemory:
    case State::kAwaitsReplyMemory:
      StopWaiting(call);
      Refuse(call, absl::CancelledError("the client cancelled the call"));
      return;
    case State::kAwaitsLease:
      StopAwaitingLease(call);
      Refuse(call, absl::CancelledError("the client cancelled the call"));
      return;
    case State::kPendingQueued:
    case State::kReplyQueued:
      SetRefusal(call, absl::CancelledError("the client cancelled the call"));
      return;
    default:  // Something is on its way; its end will look.
      return;
  }
}

void ServerCalls::OnClosing() {
  if (admission_ != nullptr) handler_.OnUnauthenticated();
  admission_.reset();
  turn_waiters_.Clear();
  memory_waiters_.Clear();
  frame_waiters_.Clear();
  lease_waiters_.Clear();
  draining_.Clear();
  initial_waiters_.Clear();
  for (const std::unique_ptr<ServerCall>& call : calls_) {
    if (call == nullptr || call->state_ == State::kFree) continue;
    call->cancelled_.store(true, std::memory_order_relaxed);
    CloseStream(call.get());
    if (call->state_ == State::kHandling) {
      handler_.OnCancelled(call.get());
    } else if (call->state_ != State::kReading) {
      // Memory that the device may still touch is held by its transfer.
      FreeCall(call.get());
    }
  }
}

void ServerCalls::OnTick(absl::Time now) {
  if (!connection_.usable() && now >= hello_deadline_) {
    return connection_.ProtocolError(
        "it did not say HELLO, or who it is, in time");
  }
  if (withdrawn_ != nullptr && withdrawn_->load(std::memory_order_relaxed)) {
    return connection_.Refuse(absl::UnauthenticatedError(
        "the server has withdrawn the credentials that this client has shown"));
  }
  if (now >= expiry_) EndExpired(now);
  WatchClient(now);
  FreeHeldMemory();
  ServeReadWaiters();
  // Other connections of the device give memory back without telling.
  if (!memory_waiters_.empty() || !turn_waiters_.empty()) SendWaiting();
}

void ServerCalls::FreeHeldMemory() {
  const uint64_t shortages = connection_.pool().shortages();
  const bool short_of_memory =
      shortages != std::exchange(seen_shortages_, shortages);
  if (!std::exchange(over_share_, false) && !short_of_memory) return;
  FreeHeldMemory(lease_waiters_);
  FreeHeldMemory(frame_waiters_);
  FreeHeldMemory(memory_waiters_);
  FreeHeldMemory(turn_waiters_);
  for (const std::unique_ptr<ServerCall>& call : calls_) {
    if (call == nullptr || call->stream_ == nullptr) continue;
    call->stream_->LeavePool(connection_.pool());
  }
}

void ServerCalls::FreeHeldMemory(CallQueue<ServerCall>& line) {
  for (ServerCall* call = line.front(); call != nullptr;
       call = line.Next(call)) {
    for (Buffer* const held : {&call->attachment_, &call->reply_.attachment}) {
      if (!connection_.pool().Owns(*held)) continue;
      Buffer plain = Buffer::PlainIfAny(held->size());
      if (plain.empty()) return;  // No memory: the Buffers stay.
      std::memcpy(plain.data(), held->data(), held->size());
      *held = std::move(plain);
    }
  }
}

absl::Time ServerCalls::NextTick() const {
  if (!connection_.usable()) return hello_deadline_;
  absl::Time next = memory_waiters_.empty() && read_waiters_.empty()
                        ? absl::InfiniteFuture()
                        : connection_.poller().now() + kMemoryRetry;
  next = std::min(next, expiry_);
  if (withdrawn_ != nullptr) {
    next = std::min(next, connection_.poller().now() + kWithdrawalLook);
  }
  for (const StallWatch* watch :
       {&parts_watch_, &credits_watch_, &sends_watch_, &leases_watch_}) {
    next = std::min(next, watch->NextTick());
  }
  return next;
}

void ServerCalls::MakeCallSlow(uint32_t slot) {
  calls_[slot].reset(new ServerCall(*this));
}

absl::Status ServerCalls::TooLargeRequest(uint64_t bytes) const {
  return absl::ResourceExhaustedError(absl::StrCat(
      "a request of ", bytes,
      " bytes is larger than the server's limit (SetMaxReceiveMessageSize), ",
      connection_.options().max_receive_message_bytes));
}

bool ServerCalls::HasAllStreams() const {
  const uint32_t most = connection_.options().max_open_streams;
  return most != 0 && open_streams_ >= most;
}

absl::Status ServerCalls::TooManyStreams() const {
  return absl::ResourceExhaustedError(absl::StrCat(
      "the connection has ", open_streams_,
      " streams open, as many as it may "
      "(ServerBuilder::SetMaxConcurrentStreamsPerConnection); this one was not "
      "processed"));
}

absl::Status ServerCalls::CheckReply(const ServerCall::Reply& reply) const {
  absl::Status status = CheckMetadata(
      "trailing", reply.metadata_bytes + reply.long_metadata.size());
  if (!status.ok()) return status;
  const uint64_t bytes = reply.message_bytes + reply.attachment.size();
  const uint64_t own = connection_.options().max_send_message_bytes;
  if (bytes > own) {
    return TooLargeReply(bytes, "the server's limit (SetMaxSendMessageSize)",
                         own);
  }
  const uint64_t clients = connection_.peer_limits().max_receive_message_bytes;
  if (bytes > clients) {
    return TooLargeReply(bytes, "the client's max_receive_message_bytes",
                         clients);
  }
  return absl::OkStatus();
}

absl::Status ServerCalls::TooLargeReply(uint64_t bytes, absl::string_view limit,
                                        uint64_t most) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "a reply of ", bytes, " bytes is larger than ", limit, ", ", most));
}

void ServerCalls::Refuse(ServerCall* call, absl::Status status) {
  SetRefusal(call, std::move(status));
  QueueFrame(call, State::kReplyQueued);
}

void ServerCalls::SetRefusal(ServerCall* call, absl::Status status) {
  call->ReleaseMessage();
  call->attachment_.Reset();
  ReleaseReply(call);
  call->reply_.status = std::move(status);
  call->reply_attachment_bytes_ = 0;
  call->reply_written_ = false;
  call->state_ = State::kReplyQueued;
}

void ServerCalls::RefuseUnprocessed(ServerCall* call) {
  call->unprocessed_ = true;
  Refuse(call, absl::UnavailableError("the server is shutting down"));
}

void ServerCalls::ReleaseReply(ServerCall* call) {
  ReplyWriter* const writer = std::exchange(call->reply_.writer, nullptr);
  call->reply_.buffer.Reset();
  call->reply_.attachment.Reset();
  call->reply_.metadata_bytes = 0;
  call->reply_.long_metadata = std::string();
  call->reply_.message_bytes = 0;
  if (writer != nullptr) writer->OnReplyDone();
}

void ServerCalls::FreeCall(ServerCall* call) {
  call->ReleaseMessage();
  call->attachment_.Reset();
  ReleaseReply(call);
  call->reply_.status = absl::OkStatus();
  call->initial_due_ = false;
  call->metadata_sent_ = 0;
  if (call->stream_ != nullptr) {
    CloseStream(call);
    call->stream_.reset();
    call->stream_leases_ = {};
    --open_streams_;
  }
  call->state_ = State::kFree;
  --open_calls_;
}

void ServerCalls::OpenStream(ServerCall* call) {
  call->stream_ = std::make_unique<MessageStream>(
      /*owner=*/nullptr, connection_.options().max_receive_message_bytes,
      "the server's limit (SetMaxReceiveMessageSize)", /*marks_end=*/false);
  call->streamed_ = true;
  ++open_streams_;
  call->lease_to_come_ = false;
  call->writes_left_ = 0;
  call->is_written_ = false;
  call->read_waits_ = false;
  call->stream_transfers_ = 0;
  call->stream_->Open(&streams_, call->call_id_);
}

void ServerCalls::CloseStream(ServerCall* call) {
  if (call->stream_ != nullptr) streams_.Close(call->stream_.get());
}

const char* ServerCall::StateName() const {
  switch (state_) {
    case State::kFree:
      return "over";
    case State::kAwaitsMemory:
      return "waits for memory for its request";
    case State::kReading:
      return "its request is being read";
    case State::kHandling:
      return "at its handler";
    case State::kDraining:
      return "its stream is being sent";
    case State::kPendingQueued:
      return "waits for a credit";
    case State::kAwaitsLease:
      return "waits for memory of its client";
    case State::kAwaitsReplyMemory:
      return "waits for memory for its reply";
    case State::kWriting:
      return "its reply is being written";
    case State::kReplyQueued:
      return "its reply waits for a credit";
  }
  return "in an unknown state";
}

const std::string& ServerCall::peer() const {
  return calls_.connection().peer();
}

const std::string& ServerCall::device_name() const {
  return calls_.connection().device().name();
}

const std::shared_ptr<const AuthContext>& ServerCall::auth_context() const {
  return calls_.auth_context_;
}

bool ServerCall::PostShort(ShortTask* task) {
  const bool takes = calls_.threads_.TakesTask();
  if (ABSL_PREDICT_TRUE(takes)) calls_.threads_.Post(task);
  return takes;
}

Poller& ServerCall::poller() const { return calls_.connection().poller(); }

void ServerCall::ReleaseMessage() {
  message_ = {};
  if (!owns_message_) return;
  owns_message_ = false;
  request_.Reset();
  if (held_message_.capacity() > kHeldBytesKept) held_message_ = {};
}

Buffer ServerCall::AllocateAttachment(size_t bytes) const {
  if (bytes == 0 || bytes > calls_.connection().options().max_bulk_bytes) {
    return Buffer::Plain(bytes);
  }
  absl::StatusOr<Buffer> buffer = calls_.AllocateBulk(bytes);
  return buffer.ok() ? *std::move(buffer) : Buffer::Plain(bytes);
}

Buffer ServerCall::AllocatePart(size_t bytes) const {
  if (bytes > 0 && bytes <= calls_.connection().options().max_bulk_bytes) {
    absl::StatusOr<Buffer> buffer = calls_.AllocateBulk(bytes);
    if (buffer.ok()) return *std::move(buffer);
  }
  return Buffer::PlainIfAny(bytes);
}

bool ServerCall::IsRegistered(const Buffer& buffer) const {
  return calls_.connection().pool().Owns(buffer);
}

absl::Status ServerCall::CheckReply(const Reply& reply) const {
  return calls_.CheckReply(reply);
}

absl::StatusOr<Buffer> ServerCall::AllocateReply(size_t bytes) {
  if (bytes > lease_bytes_) {
    return absl::UnavailableError("the client has lent no memory for it yet");
  }
  return calls_.AllocateBulk(bytes);
}

void ServerCall::Finish(Reply reply) { calls_.Finish(this, std::move(reply)); }

uint8_t* ServerCall::BeginReply(uint64_t message_bytes) {
  return calls_.BeginPlainReply(this, message_bytes);
}

void ServerCall::SendReply() { calls_.SendPlainReply(this); }

}  // namespace verbena::transport
