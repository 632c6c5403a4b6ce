// The other end of a session: it does what an input tells it to do.

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
#include "transport/memory/registered_memory.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/completion_queue.h"
#include "transport/verbs/event_channel.h"
#include "transport/verbs/protection_domain.h"
#include "transport/verbs/provider.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {

// A client or a server on the simulated software device. By itself it keeps to
// the credits and counts them right. Nothing in it waits: whoever has it lets
// the device and the other side go on. For one thread.
class SessionPeer {
 public:
  static constexpr uint32_t kArenaBytes = 64 * 1024;

  SessionPeer();
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

  // What it says of itself; some of it is legal and strange.
  PeerLimits TakeLimits(fuzz::FuzzInput& input);
  ArenaDescriptor arena() const;

  // Sends a frame with what it must say of credits, and damage; drops it when
  // there is no credit, unless the input wants it all the same.
  void SendFrames(fuzz::FuzzInput& input, const FrameSubjects& subjects);
  void SendSound(std::string frame);
  // Posts one request for `bytes` of the other side's memory.
  void PostRdma(ibv_wr_opcode opcode, uint64_t address, uint32_t rkey,
                uint32_t bytes);

  // Of the REQUESTs that have come, the latest last.
  const std::vector<uint32_t>& call_ids() const { return call_ids_; }
  // Where the other side's first arena is, if it is a client.
  const ArenaDescriptor& their_arena() const { return their_arena_; }
  uint8_t* memory() { return arena_.data(); }
  void Disconnect();

 private:
  bool SetUp(CmId id);
  void PostReceive(uint64_t index);
  void PostSend(const std::string& frame);
  void Post(ibv_send_wr request, const std::string& data);
  void Stamp(std::string* frame);
  void Count(const std::string& frame);
  void HandleEvent(const CmEvent& event);

  // In the order of dependence.
  EventChannel channel_;
  std::optional<CmId> listener_;
  std::optional<CmId> request_;  // Of a client, not yet answered.
  ArenaDescriptor their_arena_;
  ProtectionDomain pd_;
  CompletionQueue cq_;
  RegisteredMemory arena_;
  RegisteredMemory buffers_;
  std::optional<CmId> id_;

  bool resolved_ = false;
  bool established_ = false;
  bool ended_ = false;
  uint16_t credits_ = 0;  // That it gives at first.
  uint64_t sent_ = 0;
  uint64_t sent_done_ = 0;
  uint32_t credited_received_ = 0;
  uint32_t credited_sent_ = 0;
  uint32_t credit_limit_ = kIdleCredits;
  bool grants_read_ = false;  // Their parity.
  std::vector<uint32_t> call_ids_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TESTS_FUZZ_SESSION_PEER_H_
