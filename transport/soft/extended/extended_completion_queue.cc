#include "transport/soft/extended/extended_completion_queue.h"

#include <cerrno>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/soft/base/live_handles.h"
#include "transport/soft/device/context.h"
#include "transport/soft/queues/completion_queue.h"
#include "transport/soft/verbs/create_queues.h"
#include "transport/soft/verbs/refuse.h"

namespace verbena::soft {
namespace {

constexpr uint64_t kTimes = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                            IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
constexpr uint64_t kFields = IBV_WC_STANDARD_FLAGS | kTimes;
constexpr uint32_t kAttributes =
    IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
constexpr uint32_t kFlags =
    IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

// The completion that start_poll or next_poll has taken.
struct ExtendedPoll final : HandleExtension {
  ~ExtendedPoll() override {
    if (domain != nullptr) --domain->children();
  }

  base::Mutex mutex;  // Held from start_poll to end_poll.
  // The mutex is not taken, because the user promises to be one thread.
  bool single_threaded = false;
  // The parent domain that it was made with, which counts it; null for none.
  ProtectionDomain* domain = nullptr;
  // Fields that poll_cq does not fill stay zero.
  ibv_wc completion ABSL_GUARDED_BY(mutex) = {};
  CompletionTime time ABSL_GUARDED_BY(mutex) = {};
};

CompletionQueue& QueueOf(ibv_cq_ex* cq) {
  return *CompletionQueue::From(reinterpret_cast<ibv_cq*>(cq));
}
ExtendedPoll& PollOf(ibv_cq_ex* cq) {
  return static_cast<ExtendedPoll&>(*QueueOf(cq).extension);
}
const ibv_wc& Current(ibv_cq_ex* cq) { return PollOf(cq).completion; }
const CompletionTime& TimeOf(ibv_cq_ex* cq) { return PollOf(cq).time; }

// Taking completions. The mutex is held from one call of the user to another,
// or not at all, which the analysis cannot follow.

int Next(ibv_cq_ex* cq) {
  ExtendedPoll& poll = PollOf(cq);
  poll.mutex.AssertHeld();  // Unless the user promises to be one thread.
  const int taken = QueueOf(cq).PollOne(poll.completion, poll.time);
  if (taken == 0) return ENOENT;
  if (taken < 0) return -taken;
  cq->wr_id = poll.completion.wr_id;
  cq->status = poll.completion.status;
  return 0;
}

void End(ibv_cq_ex* cq) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  ExtendedPoll& poll = PollOf(cq);
  if (!poll.single_threaded) poll.mutex.unlock();
}

// A call that fails, or finds nothing, is not followed by end_poll.
int Start(ibv_cq_ex* cq,
          ibv_poll_cq_attr* attributes) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (attributes->comp_mask != 0) return EINVAL;
  ExtendedPoll& poll = PollOf(cq);
  if (!poll.single_threaded) poll.mutex.lock();
  const int error = Next(cq);
  if (error != 0) End(cq);
  return error;
}

// The fields of the completion that was taken.

ibv_wc_opcode Opcode(ibv_cq_ex* cq) { return Current(cq).opcode; }
uint32_t VendorError(ibv_cq_ex* cq) { return Current(cq).vendor_err; }
uint32_t ByteLength(ibv_cq_ex* cq) { return Current(cq).byte_len; }
__be32 Immediate(ibv_cq_ex* cq) { return Current(cq).imm_data; }
uint32_t Number(ibv_cq_ex* cq) { return Current(cq).qp_num; }
uint32_t SourceNumber(ibv_cq_ex* cq) { return Current(cq).src_qp; }
unsigned int Flags(ibv_cq_ex* cq) { return Current(cq).wc_flags; }
uint32_t SourceLid(ibv_cq_ex* cq) { return Current(cq).slid; }
uint8_t ServiceLevel(ibv_cq_ex* cq) { return Current(cq).sl; }
uint8_t PathBits(ibv_cq_ex* cq) { return Current(cq).dlid_path_bits; }
uint64_t Time(ibv_cq_ex* cq) { return TimeOf(cq).clock; }
uint64_t WallclockTime(ibv_cq_ex* cq) { return TimeOf(cq).wallclock_ns; }

void FillFunctions(ibv_cq_ex& cq) {
  cq.start_poll = Start;
  cq.next_poll = Next;
  cq.end_poll = End;
  cq.read_opcode = Opcode;
  cq.read_vendor_err = VendorError;
  cq.read_byte_len = ByteLength;
  cq.read_imm_data = Immediate;
  cq.read_qp_num = Number;
  cq.read_src_qp = SourceNumber;
  cq.read_wc_flags = Flags;
  cq.read_slid = SourceLid;
  cq.read_sl = ServiceLevel;
  cq.read_dlid_path_bits = PathBits;
  cq.read_completion_ts = Time;
  cq.read_completion_wallclock_ns = WallclockTime;
}

// Returns 0, or the errno with which create_cq_ex refuses the attributes.
int RefuseExtended(const ibv_context* context,
                   const ibv_cq_init_attr_ex& attributes) {
  const auto has = [&](uint32_t bit) {
    return (attributes.comp_mask & bit) != 0;
  };
  if (has(~kAttributes)) return EINVAL;
  if ((attributes.wc_flags & ~kFields) != 0) return EOPNOTSUPP;
  if (has(IBV_CQ_INIT_ATTR_MASK_FLAGS) && (attributes.flags & ~kFlags) != 0) {
    return EINVAL;
  }
  if (has(IBV_CQ_INIT_ATTR_MASK_PD) &&
      (!IsLive(attributes.parent_domain) ||
       attributes.parent_domain->context != context)) {
    return EINVAL;
  }
  return 0;
}

}  // namespace

// Makes an ordinary queue, and adds what its extended form has before anybody
// uses it.
ibv_cq_ex* CreateCqEx(ibv_context* context, ibv_cq_init_attr_ex* attributes) {
  if (const int error = RefuseExtended(context, *attributes); error != 0) {
    return Refuse<ibv_cq_ex>(error);
  }
  ibv_cq* const created = CreateCq(context, static_cast<int>(attributes->cqe),
                                   attributes->cq_context, attributes->channel,
                                   static_cast<int>(attributes->comp_vector));
  if (created == nullptr) return nullptr;
  CompletionQueue& queue = *CompletionQueue::From(created);
  const uint32_t flags =
      (attributes->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0
          ? attributes->flags
          : 0;
  auto poll = std::make_unique<ExtendedPoll>();
  poll->single_threaded = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
  if ((attributes->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0) {
    ProtectionDomain* const domain =
        ProtectionDomain::From(attributes->parent_domain);
    ++domain->children();
    poll->domain = domain;
  }
  queue.extension = std::move(poll);
  if ((flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0) queue.IgnoreOverruns();
  if ((attributes->wc_flags & kTimes) != 0) queue.NoteTimes();
  FillFunctions(*queue.extended());
  return queue.extended();
}

}  // namespace verbena::soft
