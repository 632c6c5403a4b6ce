#include "transport/soft/extended/extended_attributes.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "transport/soft/base/clock.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/verbs/device_attributes.h"

namespace verbena::soft {
namespace {

// The frequency of ClockNow(), which counts nanoseconds, in kHz as
// query_device_ex has it.
constexpr uint64_t kClockKilohertz = 1'000'000;

}  // namespace

int QueryWholeDevice(ibv_context* context,
                     const ibv_query_device_ex_input* input,
                     ibv_device_attr_ex* attributes, size_t bytes) {
  ibv_device_attr_ex all;
  const int error = QueryDeviceEx(context, input, &all, sizeof(all));
  if (error != 0) return error;
  all.max_dm_size = kDeviceMemoryBytesMax;
  all.completion_timestamp_mask = UINT64_MAX;
  all.hca_core_clock = kClockKilohertz;
  std::memset(attributes, 0, bytes);
  std::memcpy(attributes, &all, std::min(bytes, sizeof(all)));
  return 0;
}

int QueryRtValues(ibv_context* /*context*/, ibv_values_ex* values) {
  const uint32_t wanted = values->comp_mask;
  values->comp_mask = 0;  // Says which values are answered.
  if ((wanted & IBV_VALUES_MASK_RAW_CLOCK) != 0) {
    values->raw_clock = {0, static_cast<long>(ClockNow())};
    values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  }
  return 0;
}

}  // namespace verbena::soft
