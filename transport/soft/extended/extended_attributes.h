// The verbs that tell what the device has beyond query_device.

#ifndef VERBENA_TRANSPORT_SOFT_EXTENDED_EXTENDED_ATTRIBUTES_H_
#define VERBENA_TRANSPORT_SOFT_EXTENDED_EXTENDED_ATTRIBUTES_H_

#include <infiniband/verbs.h>

#include <cstddef>

namespace verbena::soft {

// These two are as verbs_context has them, and thread-safe.

// QueryDeviceEx() of device_attributes.h, with what the extended verbs give:
// device memory, and times of completions.
int QueryWholeDevice(ibv_context* context,
                     const ibv_query_device_ex_input* input,
                     ibv_device_attr_ex* attributes, size_t bytes);

// Answers the raw clock: ClockNow() stands in tv_nsec, as other providers have
// it.
int QueryRtValues(ibv_context* context, ibv_values_ex* values);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_EXTENDED_EXTENDED_ATTRIBUTES_H_
