#include "tools/load/echo_loop.h"

#include <thread>
#include <vector>

#include "tools/load/meter.h"
#include "transport/base/clock.h"

namespace verbena::bench {
namespace {

// How many polls that find nothing pass between two looks at the clock.
constexpr int kPollsPerClock = 1024;

// How many pass before others may have the processor: a device's own thread may
// need it.
constexpr int kPollsPerYield = 16384;

class EchoLoop final : private EchoPipe::Sink {
 public:
  EchoLoop(EchoPipe& pipe, const Case& measured, absl::Duration duration)
      : pipe_(pipe),
        schedule_(measured, duration),
        meter_(schedule_),
        due_(measured.outstanding),
        open_loop_(measured.rate_per_s > 0) {
    for (int i = measured.outstanding - 1; i >= 0; --i) free_.push_back(i);
  }

  // Polls until the measurement is over and no call is open, and begins calls
  // as they fall due. A poll that finds something is followed by another at
  // once.
  Sample Run() {
    const size_t slots = free_.size();
    now_ = Clock::now();
    StartDue();
    int polls = 0;
    while (!meter_.Over(now_) || free_.size() < slots) {
      OnLater();
      // An open loop must look at the clock, and may not sleep.
      const absl::Status status = pipe_.Poll(
          *this, open_loop_ ? absl::InfinitePast() : schedule_.deadline);
      if (!status.ok()) {
        meter_.Fail(status);
        break;
      }
      if (ended_) {
        polls = 0;
        continue;
      }
      if (++polls % kPollsPerYield == 0) std::this_thread::yield();
      // A closed loop needs the clock only to stop, so it looks less often.
      if (!open_loop_ && polls % kPollsPerClock != 0) continue;
      now_ = Clock::now();
      StartDue();
      if (base::Now() < schedule_.deadline) continue;
      meter_.Fail(absl::DeadlineExceededError("an echo did not end in time"));
      break;
    }
    return meter_.Finish();
  }

 private:
  void OnEnded(int slot, const absl::Status& status) override {
    // Reading the clock costs a tenth of a small call. So all calls that one
    // poll finds are taken to have ended at the same time.
    if (!ended_) now_ = Clock::now();
    ended_ = true;
    meter_.End(due_[slot], now_, status);
    free_.push_back(slot);
    StartDue();
  }

  void OnLater() override { ended_ = false; }

  void StartDue() {
    while (!free_.empty() && meter_.Due(now_)) {
      const int slot = free_.back();
      free_.pop_back();
      due_[slot] = meter_.Start(now_);
      pipe_.Start(slot);
    }
  }

  EchoPipe& pipe_;
  const Schedule schedule_;
  Meter meter_;
  std::vector<Clock::time_point> due_;  // When the call in each slot was due.
  std::vector<int> free_;               // Slots without a call.
  const bool open_loop_;
  Clock::time_point now_;
  bool ended_ = false;  // Whether a call has ended since OnLater(), at now_.
};

}  // namespace

Sample RunEchoes(EchoPipe& pipe, const Case& measured,
                 absl::Duration duration) {
  return EchoLoop(pipe, measured, duration).Run();
}

}  // namespace verbena::bench
