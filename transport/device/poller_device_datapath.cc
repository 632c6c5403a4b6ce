#include <algorithm>
#include <optional>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "transport/device/poller_device.h"
#include "transport/verbs/memory_window.h"

namespace verbena::transport {
namespace {

ABSL_ATTRIBUTE_NOINLINE void NoteInvalidation(const ibv_wc& completion,
                                              DeviceConnection* connection) {
  const std::optional<uint32_t> key = InvalidatedKey(completion);
  if (key.has_value()) connection->OnInvalidated(*key);
}

// Whether it can be what has become of one of these receives.
inline bool IsReceive(const ibv_wc& completion,
                      const ReceiveBuffers& receives) {
  // A failed one has no length.
  return receives.Has(static_cast<uint32_t>(completion.wr_id)) &&
         (ABSL_PREDICT_TRUE(completion.byte_len <= kBufferBytes) ||
          completion.status != IBV_WC_SUCCESS ||
          completion.opcode != IBV_WC_RECV);
}

}  // namespace

int PollerDevice::Poll() {
  ibv_wc completions[ReceiveBuffers::kPollBatch];
  const int count = cq_.Poll(absl::MakeSpan(completions));
  if (ABSL_PREDICT_FALSE(count > 0)) HandleAll({completions, size_t(count)});
  // The completion queue has failed, and all connections with it.
  if (ABSL_PREDICT_FALSE(count < 0)) Break();
  int handled = std::max(count, 0);
  if (ABSL_PREDICT_FALSE(!buffer_waiters_.empty())) {
    handled += WakeBufferWaiters();
  }
  if (!round_.empty()) FinishRound();
  return handled;
}

void PollerDevice::HandleAll(absl::Span<const ibv_wc> completions) {
  // The completions that the event announces are handled here, whether it was
  // taken or not.
  if (event_ == Event::kAsked) {
    event_ = Event::kLeft;
  } else if (event_ == Event::kTaken) {
    event_ = Event::kNone;
  }
  for (const ibv_wc& completion : completions) Handle(completion);
}

bool PollerDevice::FinishRound() {
  if (round_.empty()) return false;
  // By index: the end of one may give another something to do. One stays in the
  // list until it has run, so it is never there twice.
  for (size_t i = 0; i < round_.size(); ++i) {
    DeviceConnection* const connection = round_[i];
    connection->FinishRound();
    connection->in_round_ = false;
  }
  round_.clear();
  return true;
}

// Tells sends from receives by the tag in the wr_id, because a failed
// completion has no opcode. A receive is posted again once its connection has
// read it.
inline void PollerDevice::Handle(const ibv_wc& completion) {
  const bool receive = (completion.wr_id & ReceiveBuffers::kReceiveTag) != 0;
  const uint32_t index = static_cast<uint32_t>(completion.wr_id);
  DeviceConnection* const connection = connections_.Find(completion.qp_num);
  ReceiveBuffers* receives = shared_receives_;
  if (ABSL_PREDICT_TRUE(connection != nullptr)) {
    receives = &connection->receives();
  }
  if (ABSL_PREDICT_FALSE(receive && receives != nullptr &&
                         !IsReceive(completion, *receives))) {
    // Which receive was used is not known: none is posted again for it.
    if (connection != nullptr) connection->OnMisreport("an unknown receive");
    return;
  }
  if (ABSL_PREDICT_TRUE(connection != nullptr)) {
    if (!receive) {
      connection->OnSendDone(completion.wr_id, completion.status);
    } else if (ABSL_PREDICT_TRUE(completion.status == IBV_WC_SUCCESS)) {
      // Only for a SEND is byte_len the length of the bytes in the buffer.
      if (ABSL_PREDICT_TRUE(completion.opcode == IBV_WC_RECV)) {
        if (ABSL_PREDICT_FALSE(completion.wc_flags != 0)) {
          NoteInvalidation(completion, connection);
        }
        connection->OnReceive({receives->At(index), completion.byte_len});
      } else {
        connection->OnForeignReceive(completion.opcode);
      }
    } else {
      connection->OnReceiveError(completion.status);
    }
  }
  // A connection that is gone left its receives to those it shared them with.
  if (receive && ABSL_PREDICT_TRUE(receives != nullptr) &&
      ABSL_PREDICT_FALSE(!receives->Repost(index))) {
    FailAll(*receives);
  }
}

}  // namespace verbena::transport
