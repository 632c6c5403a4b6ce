#include "tools/rpc_bench/verbs_layer.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/rpc_bench/verbs_hello.h"
#include "transport/base/clock.h"
#include "transport/base/status_macros.h"
#include "transport/device.h"
#include "transport/verbs/cm_event.h"
#include "transport/verbs/cm_id.h"

namespace verbena::bench {
namespace {

using transport::CmEvent;
using transport::CmId;
using transport::EventChannel;

constexpr absl::Duration kConnectTimeout = absl::Seconds(10);

// Removes the first of a queue that is not empty.
int Pop(std::deque<int>& queue) {
  const int first = queue.front();
  queue.pop_front();
  return first;
}

// Calls of one case, chained into as few doorbells as there are polls.
//
// The end's memory: a slot for each call with what it sends, for a bulk echo
// another for what comes back, and for a small echo the receives.
class VerbsPipe final : public EchoPipe {
 public:
  // What the client needs for `hello`.
  static VerbsEnd::Options EndOptions(const VerbsHello& hello);

  // Posts the receives; to be made before the connection is. `end` must outlive
  // the pipe.
  VerbsPipe(VerbsEnd& end, const VerbsHello& hello, const Case& measured);

  // What the server has said. Once, when connected.
  void set_server(const VerbsHello& server) { server_ = server; }

  void Start(int slot) override;
  absl::Status Poll(Sink& sink, absl::Time until) override;

 private:
  // Returns how much has come.
  size_t PollOnce(Sink& sink);
  void Send(int slot);
  void OnReceive(Sink& sink, const ibv_wc& completion);
  // Ends the calls of a stream whose requests are complete.
  void EndSent(Sink& sink);
  void PostAgain(uint64_t receive);

  // Slots count from the start of the memory: those of the calls, then others.
  size_t Offset(uint64_t slot) const { return stride_ * slot; }
  absl::Span<uint8_t> Slot(uint64_t slot) const {
    return {end_.memory() + Offset(slot), hello_.size_bytes};
  }

  VerbsEnd& end_;
  const VerbsHello hello_;
  const Op op_;
  const uint64_t stride_;
  VerbsHello server_;
  EchoCheck check_;
  std::deque<int> waiting_;             // For the server's receives.
  std::deque<int> under_way_;           // In the order of their requests.
  std::vector<uint64_t> last_request_;  // Each slot's latest.
  uint64_t granted_;  // SENDs of a stream that the server has receives for.
  uint64_t sent_ = 0;
};

VerbsEnd::Options VerbsPipe::EndOptions(const VerbsHello& hello) {
  uint64_t slots = hello.outstanding;
  if (hello.plan == VerbsPlan::kSmallEcho) slots += hello.ReceiveDepth();
  if (hello.plan == VerbsPlan::kBulkEcho) slots += hello.outstanding;
  return {.send_depth = hello.SendDepth(),
          .receive_depth = hello.ReceiveDepth(),
          .memory_bytes = hello.Stride() * slots,
          .remote_access = hello.plan == VerbsPlan::kBulkEcho,
          .events = hello.events != 0,
          // Nothing but its own completion says that a stream's request has
          // arrived.
          .signal_chains = hello.plan >= VerbsPlan::kSendStream};
}

VerbsPipe::VerbsPipe(VerbsEnd& end, const VerbsHello& hello,
                     const Case& measured)
    : end_(end),
      hello_(hello),
      op_(measured.op),
      stride_(hello.Stride()),
      check_(measured.validate),
      last_request_(hello.outstanding),
      granted_(hello.ReceiveDepth()) {
  const std::string payload = Payload(hello.size_bytes);
  for (uint32_t i = 0; i < hello.outstanding; ++i) {
    std::copy(payload.begin(), payload.end(), Slot(i).begin());
  }
  for (uint32_t i = 0; i < hello.ReceiveDepth(); ++i) PostAgain(i);
  end_.FlushReceives();
}

void VerbsPipe::PostAgain(uint64_t receive) {
  // The others' messages are an immediate number, without bytes.
  const bool bytes = hello_.plan == VerbsPlan::kSmallEcho;
  end_.QueueReceive(receive, Offset(hello_.outstanding + receive),
                    static_cast<uint32_t>(bytes ? stride_ : 0));
}

void VerbsPipe::Start(int slot) {
  check_.Stamp(Slot(slot));
  if (hello_.plan == VerbsPlan::kSendStream && sent_ == granted_) {
    waiting_.push_back(slot);
  } else {
    Send(slot);
  }
}

void VerbsPipe::Send(int slot) {
  ++sent_;
  if (hello_.plan == VerbsPlan::kBulkEcho) {
    end_.Queue(IBV_WR_SEND_WITH_IMM, 0, 0).imm_data =
        static_cast<uint32_t>(slot);
    return;
  }
  ibv_send_wr& request =
      end_.Queue(op_ == Op::kWrite  ? IBV_WR_RDMA_WRITE
                 : op_ == Op::kRead ? IBV_WR_RDMA_READ
                                    : IBV_WR_SEND,
                 Offset(slot), static_cast<uint32_t>(hello_.size_bytes));
  request.wr.rdma = {server_.address + Offset(slot), server_.rkey};
  last_request_[slot] = end_.queued();
  under_way_.push_back(slot);
}

absl::Status VerbsPipe::Poll(Sink& sink, absl::Time until) {
  end_.FlushSends();
  if (PollOnce(sink) > 0 || hello_.events == 0 || base::Now() >= until) {
    return end_.status();
  }
  end_.Arm();
  if (PollOnce(sink) == 0 && end_.status().ok()) end_.Wait({-1, -1}, until);
  return end_.status();
}

size_t VerbsPipe::PollOnce(Sink& sink) {
  const absl::Span<const ibv_wc> completions = end_.Poll();
  bool sent = false;
  for (const ibv_wc& completion : completions) {
    if (completion.opcode != IBV_WC_RECV) {
      sent = true;
      continue;
    }
    OnReceive(sink, completion);
    PostAgain(completion.wr_id);
  }
  if (sent && hello_.plan >= VerbsPlan::kSendStream) EndSent(sink);
  // What the answers started goes out first: the peer waits for that.
  end_.FlushSends();
  if (end_.queued_receives() >= hello_.ReceiveBatch()) end_.FlushReceives();
  return completions.size();
}

void VerbsPipe::OnReceive(Sink& sink, const ibv_wc& completion) {
  switch (hello_.plan) {
    case VerbsPlan::kSmallEcho: {
      // Answers come in the order of the questions.
      if (under_way_.empty()) return;
      const int slot = Pop(under_way_);
      const uint8_t* const got =
          end_.memory() + Offset(hello_.outstanding + completion.wr_id);
      sink.OnEnded(slot,
                   check_.Compare({got, completion.byte_len}, Slot(slot)));
      break;
    }
    case VerbsPlan::kBulkEcho: {
      const uint32_t slot = completion.imm_data;
      if (slot >= hello_.outstanding) return;
      sink.OnEnded(static_cast<int>(slot),
                   check_.Compare(Slot(hello_.outstanding + slot), Slot(slot)));
      break;
    }
    case VerbsPlan::kSendStream:
      granted_ += completion.imm_data;
      while (!waiting_.empty() && sent_ < granted_) Send(Pop(waiting_));
      break;
    case VerbsPlan::kMemoryStream:
      break;
  }
}

void VerbsPipe::EndSent(Sink& sink) {
  while (!under_way_.empty() &&
         last_request_[under_way_.front()] <= end_.completed()) {
    sink.OnEnded(Pop(under_way_), absl::OkStatus());
  }
}

VerbsHello HelloOf(const Case& measured, const Options& options) {
  VerbsHello hello;
  if (measured.op == Op::kSend) {
    hello.plan = VerbsPlan::kSendStream;
  } else if (measured.op != Op::kEcho) {
    hello.plan = VerbsPlan::kMemoryStream;
  } else if (measured.size_bytes > kBulkFromBytes) {
    hello.plan = VerbsPlan::kBulkEcho;
  }
  hello.events = options.events ? 1 : 0;
  hello.outstanding = static_cast<uint32_t>(measured.outstanding);
  hello.size_bytes = measured.size_bytes;
  return hello;
}

absl::Status CheckCase(const VerbsHello& hello, uint64_t max_message_bytes) {
  if (VerbsPipe::EndOptions(hello).memory_bytes > kMaxVerbsMemoryBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(hello.outstanding, " outstanding of ", hello.size_bytes,
                     " bytes take more than the ", kMaxVerbsMemoryBytes,
                     " bytes of memory that the verbs layer allows"));
  }
  if (hello.plan != VerbsPlan::kBulkEcho &&
      hello.size_bytes > max_message_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the device takes messages of at most ", max_message_bytes,
                     " bytes, not ", hello.size_bytes));
  }
  return absl::OkStatus();
}

// Waits for the next event of a connection to `peer`, which is to be `wanted`.
absl::StatusOr<CmEvent> AwaitStep(EventChannel& channel,
                                  rdma_cm_event_type wanted,
                                  const std::string& peer) {
  ASSIGN_OR_RETURN(const std::optional<CmEvent> event,
                   channel.WaitEvent(kConnectTimeout));
  if (!event.has_value()) {
    return absl::UnavailableError(absl::StrCat("connecting to ", peer,
                                               " timed out while waiting for ",
                                               transport::CmEventName(wanted)));
  }
  if (event->type == RDMA_CM_EVENT_REJECTED &&
      event->status == transport::kRejectByApplication) {
    const absl::Span<const uint8_t> reason = event->private_data();
    return absl::FailedPreconditionError(
        absl::StrCat(peer, " refuses: ",
                     std::string(reason.begin(),
                                 std::find(reason.begin(), reason.end(), 0))));
  }
  RETURN_IF_ERROR(CmEventStatus(*event, peer));
  if (event->type == wanted) return *event;
  return absl::UnavailableError(absl::StrCat(
      "connecting to ", peer, " brought ", transport::CmEventName(event->type),
      " instead of ", transport::CmEventName(wanted)));
}

}  // namespace

absl::Status VerbsLayer::Prepare(const Case& measured) {
  const transport::Provider& provider =
      transport::ChooseProvider(server_, options_.device);
  const std::string peer = server_.ToString();
  ASSIGN_OR_RETURN(channel_, EventChannel::Create(provider));
  ASSIGN_OR_RETURN(CmId id, CmId::Create(provider, *channel_));
  RETURN_IF_ERROR(id.ResolveAddr({}, server_, kConnectTimeout));
  RETURN_IF_ERROR(
      AwaitStep(*channel_, RDMA_CM_EVENT_ADDR_RESOLVED, peer).status());
  const std::string device =
      provider.verbs.get_device_name(id.context()->device);
  if (!options_.device.empty() && options_.device != device) {
    return absl::FailedPreconditionError(
        absl::StrCat("the route to ", peer, " goes through the device ", device,
                     ", not through ", options_.device, " as was asked for"));
  }
  RETURN_IF_ERROR(id.ResolveRoute(kConnectTimeout));
  RETURN_IF_ERROR(
      AwaitStep(*channel_, RDMA_CM_EVENT_ROUTE_RESOLVED, peer).status());

  VerbsHello hello = HelloOf(measured, options_);
  ASSIGN_OR_RETURN(const VerbsLimits limits, VerbsLimits::Of(provider, id));
  RETURN_IF_ERROR(CheckCase(hello, limits.message_bytes));
  ASSIGN_OR_RETURN(end_, VerbsEnd::Create(provider, std::move(id),
                                          VerbsPipe::EndOptions(hello)));
  auto pipe = std::make_unique<VerbsPipe>(*end_, hello, measured);
  RETURN_IF_ERROR(end_->status());
  hello.address = end_->address();
  hello.rkey = end_->rkey();
  transport::ConnectionParameters parameters;
  parameters.private_data = hello.bytes();
  parameters.responder_resources = parameters.initiator_depth = limits.reads;
  RETURN_IF_ERROR(end_->id().Connect(parameters));
  ASSIGN_OR_RETURN(const CmEvent event,
                   AwaitStep(*channel_, RDMA_CM_EVENT_ESTABLISHED, peer));
  ASSIGN_OR_RETURN(const VerbsHello server, DecodeHello(event.private_data()));
  pipe->set_server(server);
  pipe_ = std::move(pipe);
  return absl::OkStatus();
}

Sample VerbsLayer::Run(const Case& measured, absl::Duration duration) {
  return RunEchoes(*pipe_, measured, duration);
}

void VerbsLayer::Release() {
  pipe_.reset();
  end_.reset();
  channel_.reset();
}

}  // namespace verbena::bench
