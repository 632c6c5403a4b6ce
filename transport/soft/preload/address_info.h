// rdma_getaddrinfo without a device of the kernel's, over getaddrinfo.

#ifndef VERBENA_TRANSPORT_SOFT_PRELOAD_ADDRESS_INFO_H_
#define VERBENA_TRANSPORT_SOFT_PRELOAD_ADDRESS_INFO_H_

#include <rdma/rdma_cma.h>

namespace verbena::soft {

// Behaves as rdma_getaddrinfo: 0, or what getaddrinfo returns, or -1 with
// errno. No route is resolved here. Thread-safe.
int GetAddressInfo(const char* node, const char* service,
                   const rdma_addrinfo* hints, rdma_addrinfo** result);

// Frees what GetAddressInfo() has made. `list` may be null.
void FreeAddressInfo(rdma_addrinfo* list);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_PRELOAD_ADDRESS_INFO_H_
