// Work requests to send that are put together by the ibv_wr_... functions.

#ifndef VERBENA_TRANSPORT_SOFT_EXTENDED_SEND_BUILDER_H_
#define VERBENA_TRANSPORT_SOFT_EXTENDED_SEND_BUILDER_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/soft/queues/verbs_handle.h"

namespace verbena::soft {

// The batch between wr_start and wr_complete of one queue pair. It is collected
// here and then posted as one chain, all of it or nothing.
//
// Thread-safe: a thread that starts a batch waits until that of another thread
// is over. Memory grows to the largest batch there ever was. It belongs to the
// queue pair's handle.
class SendBuilder final : public HandleExtension {
 public:
  // Posts the chain, or nothing of it: 0 or an errno.
  using PostAll = int (*)(ibv_qp* qp, ibv_send_wr* chain);

  // Makes the builder of `handle`, and fills the functions of `handle` that are
  // for `operations` (IBV_QP_EX_WITH_...), which the user may call. The others
  // stay null. A request may have `inline_bytes_max` bytes of inline data.
  static void Install(QueuePairHandle& handle, uint64_t operations,
                      uint32_t inline_bytes_max, PostAll post_all);

  SendBuilder(uint32_t inline_bytes_max, PostAll post_all)
      : inline_bytes_max_(inline_bytes_max), post_all_(post_all) {}

  // The user's calls come one by one, so the analysis cannot follow the mutex
  // from the first to the last.
  void Start() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  int Complete(ibv_qp* qp) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void Abort() ABSL_NO_THREAD_SAFETY_ANALYSIS;

  // The methods below REQUIRE Start(). What is wrong is told by Complete().

  // Begins a request, to which all that follows belongs until the next begins.
  ibv_send_wr& Add(const ibv_qp_ex& qp, ibv_wr_opcode opcode);
  // The request that was begun last. If there is none, returns one that is
  // never posted.
  ibv_send_wr& Last();
  void SetEntries(const ibv_sge* entries, size_t count);
  void SetInline(const ibv_data_buf* buffers, size_t count);

 private:
  // The part of the vectors below that belongs to one request.
  struct Parts {
    size_t first_entry = 0;
    size_t first_byte = 0;
    bool is_inline = false;
  };

  void Refuse(int error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (error_ == 0) error_ = error;
  }
  void Link() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint32_t inline_bytes_max_;
  const PostAll post_all_;

  base::Mutex mutex_;  // Held from Start() to Complete() or Abort().
  // The first error that was noticed; 0 for none.
  int error_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<ibv_send_wr> requests_ ABSL_GUARDED_BY(mutex_);
  // Parts of each of requests_.
  std::vector<Parts> parts_ ABSL_GUARDED_BY(mutex_);
  std::vector<ibv_sge> entries_ ABSL_GUARDED_BY(mutex_);
  // The inline data of all requests.
  std::vector<std::byte> bytes_ ABSL_GUARDED_BY(mutex_);
  // The request that is never posted; see Last().
  ibv_send_wr nowhere_ ABSL_GUARDED_BY(mutex_) = {};
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_EXTENDED_SEND_BUILDER_H_
