#include "rpc/internal/client/hedging.h"

#include <algorithm>
#include <cstring>

#include "rpc/internal/client/pushback.h"
#include "rpc/internal/codec/metadata_codec.h"
#include "rpc/internal/codec/status_text.h"
#include "transport/base/clock.h"
#include "transport/base/limits.h"

namespace verbena::internal {
namespace {

// The pause before a further look where no server is connected.
constexpr absl::Duration kNoServerPause = absl::Milliseconds(10);

}  // namespace

absl::Status Hedge::Attempt::Prepare(int previous) {
  request_ = hedge_.owner_.HedgedRequest();
  const absl::Status written = hedge_.owner_.WriteHedgeHead(
      previous, picked_.connection->wants_method_names(), &head_);
  if (!written.ok()) return written;
  request_.metadata_bytes = 0;
  request_.long_metadata = {};
  if (head_.size() <= transport::kFrameMetadataBytes) {
    request_.metadata_bytes = static_cast<uint32_t>(head_.size());
  } else {
    request_.long_metadata = absl::MakeConstSpan(
        reinterpret_cast<const uint8_t*>(head_.data()), head_.size());
  }
  return absl::OkStatus();
}

void Hedge::Attempt::WriteRequest(uint8_t* out) {
  std::memcpy(out, head_.data(), request_.metadata_bytes);
  hedge_.owner_.WriteHedgeBody(out + request_.metadata_bytes);
}

absl::Status Hedge::Attempt::OnInitialMetadata(
    absl::Span<const uint8_t> metadata) {
  initial_metadata_.assign(metadata.begin(), metadata.end());
  return absl::OkStatus();
}

// A good answer is the call's, and so is an error that the policy does not
// name, or that no other attempt follows.
void Hedge::Attempt::OnResponse(const transport::CallResponse& response) {
  attempt_.EndWith(response);
  hedge_.Forget(this);
  if (hedge_.decided_) return;
  const absl::StatusCode code = KnownCode(response.code);
  const bool unsent = response.unprocessed && hedge_.MayResend();
  if (unsent || hedge_.policy_.non_fatal.Contains(code)) {
    Metadata trailing;
    ParseMetadata(response.metadata, &trailing).IgnoreError();
    if (code != absl::StatusCode::kOk && hedge_.Continue(trailing, unsent)) {
      return;
    }
  }
  hedge_.decided_ = true;
  hedge_.owner_.TakeHedgeResponse(picked_.connection, initial_metadata_,
                                  response);
}

void Hedge::Attempt::OnUnsent(const absl::Status& why) {
  attempt_.EndUnsent();
  hedge_.OnAttemptFailed(this, why, Metadata(), /*unsent=*/true);
}

void Hedge::Attempt::OnFailed(const absl::Status& status) {
  attempt_.EndWith(status.code());
  hedge_.OnAttemptFailed(this, status, Metadata(), /*unsent=*/false);
}

void Hedge::OnFirstBegun(PickedServer* server) {
  tried_ = {server};
  begun_ = 1;
  first_open_ = true;
  Schedule(base::Now() + policy_.delay);
}

void Hedge::Schedule(absl::Time time) {
  if (decided_ || stopped_ || begun_ >= policy_.max_attempts) return;
  scheduled_ = owner_.WakeHedgeAt(time);
}

void Hedge::OnTime(absl::Time now) {
  scheduled_ = false;
  if (decided_ || stopped_) return;
  if (now >= owner_.HedgedRequest().deadline) {
    // The attempts that are open end by themselves.
    if (!open()) {
      Fail(absl::DeadlineExceededError(
          "the deadline passed between two attempts"));
    }
    return;
  }
  if (open() && !owner_.HedgesAllowed(/*failed=*/false)) return;
  absl::Status why_not;
  const Picked picked = owner_.PickForHedge(tried_, &why_not);
  if (picked.connection == nullptr) {
    if (!open() && !why_not.ok()) return Fail(why_not);
    return Schedule(now + kNoServerPause);
  }
  auto attempt = std::make_unique<Attempt>(this, picked);
  if (const absl::Status status = attempt->Prepare(begun_); !status.ok()) {
    if (!open()) Fail(status);
    return;
  }
  ++begun_;
  tried_.push_back(picked.server);
  Attempt* const started = attempt.get();
  open_.push_back(std::move(attempt));
  Schedule(now + policy_.delay);
  // May end the attempt, and the call, from inside.
  started->Start();
}

void Hedge::Forget(const Attempt* attempt) {
  const auto found =
      std::find_if(open_.begin(), open_.end(),
                   [&](const auto& each) { return each.get() == attempt; });
  spent_.push_back(std::move(*found));
  open_.erase(found);
}

void Hedge::Fail(const absl::Status& status) {
  decided_ = true;
  owner_.TakeHedgeFailure(status);
}

void Hedge::OnAttemptFailed(const Attempt* attempt, const absl::Status& status,
                            const Metadata& trailing, bool unsent) {
  Forget(attempt);
  if (decided_) return;
  const bool fatal = !unsent && !policy_.non_fatal.Contains(status.code());
  if (fatal || !Continue(trailing, unsent)) Fail(status);
}

bool Hedge::OnFirstResponse() {
  first_open_ = false;
  return !ended_;
}

bool Hedge::OnFirstFailed(const absl::Status& status, const Metadata& trailing,
                          bool unsent) {
  // The answer of another attempt was taken, and is an error: the call's.
  if (decided_ && !ended_) return false;
  first_open_ = false;
  if (ended_) return true;
  const bool fatal = !unsent && !policy_.non_fatal.Contains(status.code());
  if (begun_ > 0 && !fatal && Continue(trailing, unsent)) return true;
  decided_ = true;
  return false;
}

// An attempt that nobody has seen does not count. After a failure the next one
// begins at once, or when the server says.
bool Hedge::Continue(const Metadata& trailing, bool unsent) {
  absl::Duration pause = absl::ZeroDuration();
  if (unsent) {
    --begun_;
  } else {
    const Pushback pushback = ReadPushback(trailing);
    if (!owner_.HedgesAllowed(/*failed=*/true) || pushback.never) {
      stopped_ = true;
      scheduled_ = false;
    }
    pause = pushback.wait.value_or(pause);
  }
  Schedule(base::Now() + pause);
  return open() || scheduled_;
}

void Hedge::Stop(const absl::Status& status) {
  stopped_ = true;
  scheduled_ = false;
  if (!decided_ && !open()) Fail(status);
}

bool Hedge::End() {
  decided_ = ended_ = true;
  if (!open()) return true;
  settling_ = true;
  owner_.PostHedge(&settle_);
  return false;
}

// Each attempt ends inside of the cancellation.
void Hedge::Settle() {
  settling_ = false;
  const absl::Status why =
      absl::CancelledError("another attempt has the answer");
  while (!open_.empty()) open_.back()->Cancel(why);
  if (first_open_) owner_.CancelFirst(why);
}

}  // namespace verbena::internal
