// SessionPeer, the other end of a session, which does what an input says.

#ifndef VERBENA_TESTS_FUZZ_SESSION_PEER_H_
#define VERBENA_TESTS_FUZZ_SESSION_PEER_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/session_frames.h"
#include "tests/fuzz/session_memory.h"
#include "transport/client/lease_windows.h"
#include "transport/memory/registered_memory.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/completion_queue.h"
#include "transport/verbs/event_channel.h"
#include "transport/verbs/protection_domain.h"
#include "transport/verbs/provider.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {

// Options of the two sides of a session, from a byte of the input.
struct SessionSetup {
  explicit SessionSetup(uint8_t byte)
      : subject_wants_sums((byte & 1) != 0),
        peer_wants_sums((byte & 2) != 0),
        uses_lease_keys((byte & 4) != 0),
        // Inputs that are older than trains begin with other bytes.
        uses_trains(byte / 8 == 1) {}

  bool subject_wants_sums;  // EndpointOptions::checksum of the fuzzed side.
  bool peer_wants_sums;     // The peer asks for checksums, or confirms them.
  bool uses_lease_keys;     // The client lends through memory windows.
  bool uses_trains;         // The peer asks for trains, and sends them.
};

// A client or a server on the simulated software device. By default it obeys
// the protocol: it keeps to the credits and counts them, adds checksums if they
// were agreed on, and uses lent memory as a real peer does. Now and then an
// input has it break one of these rules. It aborts if the other side sends
// wrong checksums or announces its memory wrongly. No function waits, so the
// owner has to run the device and the other side. For one thread.
class SessionPeer {
 public:
  static constexpr uint32_t kArenaBytes = 64 * 1024;

  explicit SessionPeer(const SessionSetup& setup);
  SessionPeer(const SessionPeer&) = delete;
  SessionPeer& operator=(const SessionPeer&) = delete;
  ~SessionPeer();

  static const Provider& Device();

  // A client takes the steps in turn, each when the one before has had its
  // event; false if the device refuses.
  bool Resolve(const base::SocketAddress& server);
  bool Connect(const std::string& private_data);
  // A server. Returns the address.
  base::SocketAddress Listen();
  bool has_request() const { return request_.has_value(); }
  bool Accept(const std::string& private_data);
  bool Reject(const std::string& private_data);

  // Takes what has come from the device and its connection manager.
  void Poll();

  bool resolved() const { return resolved_; }
  bool established() const { return established_; }
  bool ended() const { return ended_; }

  // Draws the limits that it announces. Some are legal but strange.
  PeerLimits TakeLimits(fuzz::FuzzInput& input);
  ArenaDescriptor arena() const;

  // Sends a sound HELLO or WELCOME.
  void Greet(FrameType type);
  // Draws a frame, sets its fields for credits, damages some, and sends it. If
  // there is no credit, drops it, unless the input wants it to be sent.
  void SendFrames(fuzz::FuzzInput& input, FrameSubjects subjects);
  // Posts one request for `bytes` of the other side's memory.
  void PostRdma(ibv_wr_opcode opcode, uint64_t address, uint32_t rkey,
                uint32_t bytes);

  // Call ids of the REQUESTs that have come, the latest last.
  const std::vector<uint32_t>& call_ids() const { return call_ids_; }
  // The first arena of the other side, if that is a client.
  const ArenaDescriptor& their_arena() const { return their_arena_; }
  // Loans of the client, answered or not, the latest last.
  const std::vector<Loan>& loans() const { return client_memory_.loans(); }
  uint8_t* memory() { return arena_.data(); }
  void Disconnect();

 private:
  bool SetUp(CmId id);
  void PostReceive(uint64_t index);
  bool CanPost() const {
    return id_.has_value() && established_ && sent_ - sent_done_ < kSends;
  }
  void PostSend(const std::string& frame, uint32_t invalidates);
  // Posts it of `data`, or as it is; not if there is no room.
  void Post(ibv_send_wr request, const std::string& data);
  void PostAsIs(ibv_send_wr request);
  void OnReceive(const ibv_wc& completion);
  void HandleEvent(const CmEvent& event);

  // --- session_peer_frames.cc ---

  // Checksums and invalidated key that a SEND has beside its frame.
  struct Beside {
    PartSums sums;
    uint32_t invalidates = 0;
  };

  bool is_server() const { return listener_.has_value(); }
  void Stamp(std::string* frame);
  // Puts more frames behind `train`, which is a frame that was stamped. Most of
  // them are sound.
  void TakeTrain(fuzz::FuzzInput& input, FrameSubjects subjects, Beside* beside,
                 std::string* train);
  // Notes what a SEND of the other side says. Aborts if that is a train which
  // breaks the rules of frame.h.
  void Count(const std::string& frame);
  void NoteCalls(const std::string& sent);
  // Does with memory what the frame says was done.
  Beside MakeTrue(fuzz::FuzzInput& input, std::string* frame);
  // A client: binds a window to what the frame lends, and has it say the key.
  void LendThroughWindow(std::string* frame);
  bool InArena(uint64_t address, uint32_t bytes) const {
    return bytes <= kArenaBytes &&
           address - arena().address <= kArenaBytes - bytes;
  }
  uint32_t Bind(uint64_t address, uint32_t bytes);
  PartSums SumsOf(const RequestHeader& request) const;
  uint32_t SumOf(uint16_t arena, uint32_t offset, uint32_t bytes) const;
  // A server: writes what the RESPONSE says is in the loan.
  PartSums WriteParts(const ResponseHeader& response, const Loan& loan);
  uint32_t WritePart(const Loan& loan, uint64_t offset, uint32_t bytes);
  // The key that the answer to a call invalidates.
  uint32_t TakeKey(fuzz::FuzzInput& input, const Loan& loan) const;

  static constexpr uint32_t kSends = 16;

  const SessionSetup setup_;
  // In the order of dependence.
  EventChannel channel_;
  std::optional<CmId> listener_;
  std::optional<CmId> request_;  // Connection request without an answer yet.
  ArenaDescriptor their_arena_;
  ProtectionDomain pd_;
  CompletionQueue cq_;
  RegisteredMemory arena_;  // A server writes what is there.
  RegisteredMemory buffers_;
  LeaseWindows windows_;  // Used by a client only.
  std::optional<CmId> id_;

  bool resolved_ = false;
  bool established_ = false;
  bool ended_ = false;
  uint16_t credits_ = 0;  // Credits that it gives at first.
  uint64_t sent_ = 0;
  uint64_t sent_done_ = 0;
  uint32_t credited_received_ = 0;
  uint32_t credited_sent_ = 0;
  uint32_t credit_limit_ = kIdleCredits;
  bool grants_read_ = false;  // Their parity.
  std::vector<uint32_t> call_ids_;
  SessionMemory client_memory_;  // The client is this side or the other.
  std::vector<LeaseWindow*> bound_;
  bool sums_ = false;  // Frames have them by now.
};

}  // namespace verbena::transport

#endif  // VERBENA_TESTS_FUZZ_SESSION_PEER_H_
