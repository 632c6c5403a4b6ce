#include "transport/device/device_limits.h"

#include <algorithm>

#include "transport/verbs/error.h"

namespace verbena::transport {
namespace {

// Drivers report in signed numbers, and some have none to report.
uint32_t Positive(int number) {
  return static_cast<uint32_t>(std::max(number, 0));
}

uint8_t Reads(int most) {
  return static_cast<uint8_t>(std::min<uint32_t>(Positive(most), kReadDepth));
}

}  // namespace

absl::StatusOr<DeviceLimits> QueryLimits(const Provider& provider,
                                         ibv_context* context) {
  ibv_device_attr attributes = {};
  const int error = provider.verbs.query_device(context, &attributes);
  if (error != 0) return ErrnoStatus("query_device", "", error);
  DeviceLimits limits;
  limits.iwarp = context->device->transport_type == IBV_TRANSPORT_IWARP;
  // A connection asks for no more than it can use, and no more than there is.
  limits.send_depth = std::min(Positive(attributes.max_qp_wr), kSendQueueDepth);
  // On iWARP each queue pair has its own receives, even if the device can
  // share them.
  limits.shared_receives = !limits.iwarp && attributes.max_srq_wr > 0;
  limits.receives = Positive(limits.shared_receives ? attributes.max_srq_wr
                                                    : attributes.max_qp_wr);
  limits.completions = Positive(attributes.max_cqe);
  limits.reads_answered = Reads(attributes.max_qp_rd_atom);
  limits.reads_made = Reads(attributes.max_qp_init_rd_atom);
  return limits;
}

}  // namespace verbena::transport
