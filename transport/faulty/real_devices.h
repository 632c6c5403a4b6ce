// The limits of real devices, so that a faulty provider can offer no more.

#ifndef VERBENA_TRANSPORT_FAULTY_REAL_DEVICES_H_
#define VERBENA_TRANSPORT_FAULTY_REAL_DEVICES_H_

#include <cstdint>

#include "absl/types/span.h"

namespace verbena::transport {

// The numbers of one device, as query_device reports them, and what create_qp
// refuses without having reported it.
struct DeviceNumbers {
  const char* name;
  uint32_t inline_bytes;  // More than kPlentyInline is not told apart.
  int work_requests;
  int shared_receives;  // 0: there are no shared receive queues.
  int completions;
  int reads_answered;
  int reads_made;
  // Its librdmacm answers ENOMEM to all that create_qp refuses.
  bool says_enomem = false;
};

// Far more than anybody asks for.
inline constexpr uint32_t kPlentyInline = 1024;

// Inline bytes and READs are those of the kernel's drivers and rdma-core, but
// for mlx4, mlx5 and bnxt_re. The other numbers are typical of what ibv_devinfo
// prints, because the firmware decides; nobody has checked them on a device.
absl::Span<const DeviceNumbers> RealDevices();

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_FAULTY_REAL_DEVICES_H_
