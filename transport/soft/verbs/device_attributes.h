// The verbs that query the device and its ports.

#ifndef VERBENA_TRANSPORT_SOFT_VERBS_DEVICE_ATTRIBUTES_H_
#define VERBENA_TRANSPORT_SOFT_VERBS_DEVICE_ATTRIBUTES_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace verbena::soft {

// The verbs of these names. Thread-safe.

int QueryDevice(ibv_context* context, ibv_device_attr* attributes);

// Returns EINVAL for a port that the device does not have.
int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attributes);

// There is one P_Key, which every port has at index 0.
int QueryPkey(ibv_context* context, uint8_t port, int index, __be16* pkey);

// These two are as verbs_context has them: `bytes` is the size of the caller's
// structure, which may be of another version of libibverbs.

int QueryDeviceEx(ibv_context* context, const ibv_query_device_ex_input* input,
                  ibv_device_attr_ex* attributes, size_t bytes);
int QueryPortEx(ibv_context* context, uint8_t port, ibv_port_attr* attributes,
                size_t bytes);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_VERBS_DEVICE_ATTRIBUTES_H_
