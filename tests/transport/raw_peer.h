// An end of a connection whose frames the test chooses, whether they are valid
// or not.

#ifndef VERBENA_TESTS_TRANSPORT_RAW_PEER_H_
#define VERBENA_TESTS_TRANSPORT_RAW_PEER_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tests/testing/test_device.h"
#include "transport/base/limits.h"
#include "transport/memory/registered_memory.h"
#include "transport/verbs/cm_event.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/completion_queue.h"
#include "transport/verbs/event_channel.h"
#include "transport/verbs/protection_domain.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {

// `header` and `body` as bytes to send; body_bytes is set.
template <typename Header>
std::string FrameText(Header header, absl::string_view body = "") {
  FrameHeader common;
  std::memcpy(&common, &header, sizeof(common));
  common.header_bytes = sizeof(header);
  common.body_bytes = static_cast<uint32_t>(body.size());
  std::memcpy(&header, &common, sizeof(common));
  std::string text(reinterpret_cast<const char*>(&header), sizeof(header));
  text.append(body.data(), body.size());
  return text;
}

// A header out of received bytes. REQUIRES: they are as long.
template <typename Header>
Header HeaderOf(const std::string& frame) {
  Header header;
  std::memcpy(&header, frame.data(), sizeof(header));
  return header;
}

// Returns a train of `frames`, with `padding` in the gaps.
inline std::string TrainText(const std::vector<std::string>& frames,
                             char padding = 0) {
  std::string train;
  for (const std::string& frame : frames) {
    train.resize((train.size() + kTrainAlignment - 1) / kTrainAlignment *
                     kTrainAlignment,
                 padding);
    train += frame;
  }
  return train;
}
// Returns `header` without what only the first frame of a train may have: the
// credit limit and the flow flags.
template <typename Header>
Header Behind(Header header) {
  header.frame.credit_limit = 0;
  header.frame.flags &= static_cast<uint8_t>(~kFlowFlags);
  return header;
}

// Returns the frames of one SEND of a correct peer.
inline std::vector<std::string> FramesOf(const std::string& train) {
  std::vector<std::string> frames;
  for (size_t at = 0; at + sizeof(FrameHeader) <= train.size();) {
    const auto header = HeaderOf<FrameHeader>(train.substr(at));
    frames.push_back(
        train.substr(at, size_t{header.header_bytes} + header.body_bytes));
    at += (frames.back().size() + kTrainAlignment - 1) / kTrainAlignment *
          kTrainAlignment;
  }
  return frames;
}

// A client, or the server's end of a connection that a RawListener accepts. It
// has an arena that its peer may READ and WRITE. Every wait ends after
// kTestTimeout with DEADLINE_EXCEEDED. Not thread-safe.
class RawPeer {
 public:
  struct Options {
    uint32_t receives = kCredits + kGrantReceives;
    uint32_t sends = 128;         // SENDs that may be under way.
    uint16_t credits = kCredits;  // Credits that it gives the other side.
    bool keep_receives = true;    // Whether to post used receives again.
    // Whether it sends only with credits, and tells which GRANTs it has read.
    bool keeps_to_credits = true;
    uint64_t arena_bytes = kFirstArenaBytes;
    int arena_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                       IBV_ACCESS_REMOTE_WRITE;
  };
  // Larger than any frame may be.
  static constexpr uint32_t kPeerBufferBytes = 4 * kBufferBytes;

  // A client that knows the way to `address` and has not connected.
  static absl::StatusOr<std::unique_ptr<RawPeer>> Create(
      const std::string& address, const Options& options);
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;
  ~RawPeer();

  // Return the limits and the private data of a correct peer.
  PeerLimits Limits() const;
  ConnectRequest Request() const;

  // Client: connects with any private data. Returns how that ended: ESTABLISHED
  // or REJECTED, with what the server said.
  absl::StatusOr<CmEvent> Connect(const std::string& private_data);
  // Client: asks for the connection, and does not wait for the answer.
  absl::Status BeginConnect(const std::string& private_data);
  // Client: waits for it, and returns what Connect() does.
  absl::StatusOr<CmEvent> AwaitAnswer();
  // Client: connects as a correct one, up to the WELCOME. Its HELLO has
  // `options`.
  absl::Status Open(const std::vector<HelloOption>& options = {});

  // Server: what the client said, and the answer to it.
  const CmEvent& connect_event() const { return connect_event_; }
  absl::Status Accept(const std::string& private_data);
  // As Accept(), but does not wait for the client. A test may keep the client
  // from polling.
  absl::Status BeginAccept(const std::string& private_data);
  absl::Status Reject(const std::string& private_data);
  // Server: accepts as a correct one and answers the HELLO with `options`.
  absl::Status AcceptAndWelcome(const std::vector<HelloOption>& options = {});

  // A header with the credit limit of a correct peer.
  FrameHeader Header(FrameType type, uint32_t call_id = 0) const;
  // A request with an inline message of `bytes`, or of a range of the arena.
  RequestHeader InlineRequest(uint32_t call_id, uint64_t method,
                              uint32_t bytes) const;
  RequestHeader ArenaRequest(uint32_t call_id, uint64_t method, uint32_t offset,
                             uint32_t bytes) const;

  // Sends any bytes, at most kPeerBufferBytes; waits for a credit first. Fails
  // once an earlier SEND has.
  absl::Status Send(const std::string& text);
  // As Send(), but the SEND invalidates `rkey`, a key of the other side.
  absl::Status SendInvalidating(const std::string& text, uint32_t rkey);
  // WRITEs `data`. Flush() tells whether the other side allowed it.
  absl::Status Write(uint64_t address, uint32_t rkey, const std::string& data);
  // WRITEs as many zeros with immediate data, which takes a receive of the
  // other side without a message. Waits for no credit.
  absl::Status WriteWithImmediate(uint64_t address, uint32_t rkey,
                                  uint32_t bytes);
  // Has the own device make READs and atomics, which the peer has not agreed
  // to.
  absl::Status AllowOwnReads();
  // READs `bytes`, or adds to a number of eight bytes by an atomic. Flush()
  // tells whether the other side allowed it.
  // REQUIRES: AllowOwnReads() succeeded.
  absl::Status Read(uint64_t address, uint32_t rkey, uint32_t bytes);
  absl::Status FetchAdd(uint64_t address, uint32_t rkey);
  // Waits until everything that was sent has arrived. Returns the first error.
  absl::Status Flush();

  // Returns the next frame. Fails with UNAVAILABLE if the connection ends
  // before there is one.
  absl::StatusOr<std::string> Receive();
  // As Receive(), but returns nothing if no frame has come yet.
  absl::StatusOr<std::optional<std::string>> TryReceive();
  // Posts one receive more, where they are not kept.
  absl::Status ReceiveOneMore() { return PostReceive(options_.receives); }
  // Returns the next frame of `type`, and drops others before it.
  absl::StatusOr<std::string> Receive(FrameType type);
  // Returns the text of the BYE that comes, or "no BYE: ..." if none does.
  std::string AwaitBye();
  // Waits for the end of the connection.
  absl::Status AwaitEnd();
  // How often this side tries a SEND for which the peer has no receive, as the
  // peer has said; 7 stands for any number.
  absl::StatusOr<int> ReceiverNotReadyRetries() const;
  // Ends it from this side.
  void Disconnect() { id_->Disconnect().IgnoreError(); }

  uint8_t* arena() { return arena_.data(); }
  uint32_t arena_rkey() const { return arena_.rkey(); }
  uint64_t arena_address() const {
    return reinterpret_cast<uint64_t>(arena_.data());
  }
  uint64_t arena_bytes() const { return arena_.size(); }

 private:
  friend class RawListener;

  RawPeer(const Options& options, EventChannel channel)
      : options_(options), channel_(std::move(channel)) {}
  absl::Status SetUp(CmId id);
  absl::Status PostReceive(uint64_t index);
  // Posts `request`, which is of `data`.
  absl::Status Post(ibv_send_wr request, const std::string& data);
  absl::StatusOr<CmEvent> AwaitEvent(rdma_cm_event_type type);
  // Looks once at the completions and the connection manager.
  absl::Status PollOnce();
  absl::Status PollUntil(absl::FunctionRef<bool()> done);
  // On iWARP, once something was sent: sends a WRITE of no bytes.
  void Nudge();
  // Takes note of the credits that a frame of the peer grants.
  void CountCredits(const std::string& frame);
  // Makes `frame` acknowledge GRANTs, if it has a header, and waits until there
  // is a credit for it.
  absl::Status SpendCredit(std::string* frame);

  const Options options_;
  EventChannel channel_;
  std::optional<CmId> id_;
  ProtectionDomain pd_;
  CompletionQueue cq_;
  RegisteredMemory arena_;
  RegisteredMemory send_memory_;
  RegisteredMemory receive_memory_;
  CmEvent connect_event_;

  uint64_t sent_ = 0;
  uint64_t sent_done_ = 0;
  uint32_t credited_received_ = 0;
  uint32_t credited_sent_ = 0;
  uint32_t credit_limit_ = kIdleCredits;  // The limit for our SENDs.
  bool grants_read_ = false;              // Parity of the GRANTs that came.
  absl::Status send_error_;
  std::deque<std::string> received_;  // Frames not yet taken by Receive().
  bool ended_ = false;
};

// Listens, and hands every client to the test.
class RawListener {
 public:
  static absl::StatusOr<std::unique_ptr<RawListener>> Create();

  const std::string& address() const { return address_; }
  // The next client, not yet answered.
  absl::StatusOr<std::unique_ptr<RawPeer>> Next(
      const RawPeer::Options& options = {});

 private:
  explicit RawListener(EventChannel channel) : channel_(std::move(channel)) {}

  EventChannel channel_;
  std::optional<CmId> id_;
  std::string address_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TESTS_TRANSPORT_RAW_PEER_H_
