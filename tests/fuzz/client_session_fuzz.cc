// A client with calls, and a server that answers with whatever it likes and
// writes where it may, on the simulated device. The client's poller stays from
// one input to the next.

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tests/fuzz/descriptors.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/session.h"
#include "tests/fuzz/session_frames.h"
#include "tests/fuzz/session_peer.h"
#include "tests/fuzz/stream_user.h"
#include "transport/base/buffer.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/limits.h"
#include "transport/client/client_call.h"
#include "transport/client/client_connection.h"
#include "transport/client/client_poller.h"
#include "transport/soft/simulation.h"
#include "transport/streams/message_stream.h"
#include "transport/wire/checksum.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

using fuzz::FuzzInput;
using fuzz::ReadAll;

// A call that ends once. What it keeps of its reply does not change any more if
// `revokes`.
class Call final : public ClientCall {
 public:
  Call(FuzzInput& input, bool revokes) : revokes_(revokes) {
    request_.method_id = 1;
    request_.metadata_bytes = input.Below(64);
    // An eighth of the calls are streams. The length decides, because another
    // draw would change the meaning of older inputs.
    if (request_.metadata_bytes >= 56) {
      user_.set_stream(&messages_);
      set_stream(&messages_);
    }
    // Some calls have long metadata. The length decides again.
    if (request_.metadata_bytes % 16 == 15) {
      long_metadata_.assign(request_.metadata_bytes * 140, 'm');
      request_.long_metadata = absl::MakeConstSpan(
          reinterpret_cast<const uint8_t*>(long_metadata_.data()),
          long_metadata_.size());
      request_.metadata_bytes = 0;
    }
    if (streams()) return;
    request_.message_bytes = TakeLength(input);
    if (input.Bool()) request_.reply_hint_bytes = TakeLength(input);
    if (input.Below(8) == 0) request_.deadline = base::Now();
    if (input.Below(4) == 0) {
      attachment_ = Buffer::Plain(1 + input.Take<uint16_t>());
      std::memset(attachment_.data(), 'a', attachment_.size());
      request_.attachment = attachment_.span();
    }
  }
  ~Call() {
    CHECK(done_);
    if (revokes_) CHECK_EQ(Crc32c(kept_.span()), kept_sum_);
  }

  void WriteRequest(uint8_t* out) override {
    CHECK(!done_ && !written_);
    written_ = true;
    std::memset(out, 'q', request_.metadata_bytes + request_.message_bytes);
  }
  absl::Status OnInitialMetadata(absl::Span<const uint8_t> metadata) override {
    CHECK(!done_ && written_);
    ReadAll(metadata);
    return metadata.size() % 2 == 0 ? absl::OkStatus()
                                    : absl::InternalError("no metadata");
  }
  void OnResponse(const CallResponse& response) override {
    CHECK(!done_ && written_);
    done_ = true;
    ReadAll(response.status_message);
    ReadAll(response.metadata);
    ReadAll(response.message);
    if (response.attachment == nullptr) return;
    ReadAll(response.attachment->span());
    kept_ = std::move(*response.attachment);
    kept_sum_ = Crc32c(kept_.span());
  }
  void OnFailed(const absl::Status& status) override {
    CHECK(!done_ && !status.ok());
    done_ = true;
  }

  bool done() const { return done_; }
  bool streams() const { return (request_.flags & kFlagStream) != 0; }
  void UseStream(FuzzInput& input) { user_.Use(input); }

 private:
  const bool revokes_;
  std::string long_metadata_;
  StreamUser user_;
  MessageStream messages_{&user_, /*max_message_bytes=*/uint64_t{1} << 20,
                          "the fuzzer's limit", /*marks_end=*/true};
  Buffer attachment_;
  Buffer kept_;  // Attachment of the reply, kept as long as the call.
  uint32_t kept_sum_ = 0;
  bool written_ = false;
  bool done_ = false;
};

EndpointOptions Options(FuzzInput& input, const SessionSetup& setup) {
  EndpointOptions options;
  options.checksum = setup.subject_wants_sums;
  options.revoke_leases = setup.uses_lease_keys;
  options.max_send_message_bytes = uint64_t{1} << 20;
  options.max_receive_message_bytes = uint64_t{1} << 20;
  options.max_arena_bytes = uint64_t{input.Bool() ? 1u : 4u} << 20;
  if (input.Bool()) options.continued_bytes_max = 0;
  return options;
}

class ClientSession final : public Session {
 public:
  ClientSession(soft::Simulation& simulation, ClientPoller& clients,
                FuzzInput input)
      : Session(simulation, input), clients_(clients) {}

 private:
  void TurnSubject() override { clients_.poller().Sleep(absl::InfinitePast()); }

  bool Connect() override {
    const base::SocketAddress address = peer_.Listen();
    connection_ =
        clients_.Connect(SessionPeer::Device(), address,
                         Options(input_, setup_), /*observer=*/nullptr);
    for (int i = 0; i < 20 && !peer_.has_request(); ++i) Turn();
    CHECK(peer_.has_request());
    return Answer();
  }

  // False when the client is refused.
  bool Answer() {
    std::string reply;
    const bool refuses = input_.Below(16) == 0;
    if (refuses) {
      reply = EncodeReject({static_cast<RejectReason>(input_.Below(6)),
                            std::string(input_.Take<uint8_t>(), 'n')});
    } else {
      reply = EncodeConnectReply({peer_.TakeLimits(input_)});
    }
    if (input_.Below(32) == 0) TakeDamage(input_, &reply);
    reply.resize(std::min(reply.size(), refuses ? kRejectPrivateBytesMax
                                                : kAcceptPrivateBytesMax));
    if (refuses) {
      peer_.Reject(reply);
      Turn(5);
      return false;
    }
    if (!peer_.Accept(reply)) return false;
    Turn(5);
    Greet(FrameType::kWelcome);
    return true;
  }

  void Step() override {
    switch (input_.Below(16)) {
      case 0:
      case 1:
      case 2:
        calls_.push_back(
            std::make_unique<Call>(input_, setup_.uses_lease_keys));
        return connection_->Start(calls_.back().get());
      case 3:
        return UseOrCancel();
      case 4:
      case 5:
        return Rdma();
      case 6:
        if (input_.Below(16) == 0) peer_.Disconnect();
        return;
      case 7:
        return Turn(static_cast<int>(input_.Below(8)));
      case 8:
        // Buffers of replies go, and others have their memory.
        std::erase_if(calls_, [](const auto& call) { return call->done(); });
        return;
      default: {
        FrameSubjects subjects;
        subjects.message_limit = kStreamLongMessages;
        subjects.call_ids = peer_.call_ids();
        if (subjects.call_ids.empty()) subjects.call_ids = {0};
        peer_.SendFrames(input_, subjects);
      }
    }
  }

  void UseOrCancel() {
    if (calls_.empty()) return;
    Call* const call = calls_[input_.Take<uint8_t>() % calls_.size()].get();
    if (call->streams() && input_.Below(4) != 0) return call->UseStream(input_);
    if (!call->done()) {
      connection_->Cancel(call, absl::CancelledError("no longer wanted"));
    }
  }

  // In the client's arena, or beside it; or, where they have keys, in leases.
  void Rdma() {
    constexpr ibv_wr_opcode kOpcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE,
                                          IBV_WR_RDMA_READ,
                                          IBV_WR_RDMA_WRITE_WITH_IMM};
    const ibv_wr_opcode opcode = kOpcodes[input_.Below(4)];
    const std::vector<Loan>& loans = peer_.loans();
    if (setup_.uses_lease_keys && !loans.empty() && input_.Below(4) != 3) {
      const Loan& loan = loans[input_.Take<uint8_t>() % loans.size()];
      const uint64_t offset = input_.Take<uint16_t>() % loan.bytes;
      return peer_.PostRdma(opcode, loan.address + offset, loan.rkey,
                            TakeLength(input_));
    }
    const ArenaDescriptor& arena = peer_.their_arena();
    const uint64_t offset = input_.Bool() ? 4096 * input_.Take<uint8_t>()
                                          : input_.Take<uint32_t>() % (1 << 21);
    const uint32_t rkey = arena.rkey + input_.Below(32) / 31;
    peer_.PostRdma(opcode, arena.address + offset, rkey, TakeLength(input_));
  }

  void End() override {
    peer_.Disconnect();
    const bool early = input_.Bool();
    Turn(early ? 0 : 8);
    clients_.Close(std::move(connection_));
    // The connection has ended, so each call must have ended.
    calls_.clear();
    Turn(8);
  }

  ClientPoller& clients_;
  std::vector<std::unique_ptr<Call>> calls_;
  std::unique_ptr<ClientConnection> connection_;
};

ClientPoller& Clients() {
  static auto* const clients = [] {
    auto* const made = ClientPoller::Create()->release();
    made->poller().Enter();
    return made;
  }();
  return *clients;
}

}  // namespace
}  // namespace verbena::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace transport = verbena::transport;
  static auto& simulation = verbena::soft::Simulation::Begin();
  transport::ClientSession(simulation, transport::Clients(), {data, size})
      .Run();
  verbena::fuzz::CheckFewDescriptors();
  return 0;
}
