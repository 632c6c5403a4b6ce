#include "transport/soft/preload/address_info.h"

#include <netdb.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace verbena::soft {
namespace {

sockaddr* CopyOf(const sockaddr* address, socklen_t length) {
  // Room for any address, however long the user says it is.
  auto* copy = reinterpret_cast<sockaddr*>(new sockaddr_storage());
  std::memcpy(
      copy, address,
      length < sizeof(sockaddr_storage) ? length : sizeof(sockaddr_storage));
  return copy;
}

void FreeAddress(sockaddr* address) {
  delete reinterpret_cast<sockaddr_storage*>(address);
}

void FreeOne(rdma_addrinfo* info) {
  FreeAddress(info->ai_src_addr);
  FreeAddress(info->ai_dst_addr);
  std::free(info->ai_src_canonname);
  std::free(info->ai_dst_canonname);
  delete info;
}

// Returns the hints for getaddrinfo(). The type of socket that it finds tells
// the port space.
addrinfo HintsFor(const rdma_addrinfo& hints) {
  addrinfo wanted = {};
  if ((hints.ai_flags & RAI_PASSIVE) != 0) wanted.ai_flags |= AI_PASSIVE;
  if ((hints.ai_flags & RAI_NUMERICHOST) != 0) {
    wanted.ai_flags |= AI_NUMERICHOST;
  }
  wanted.ai_family = hints.ai_family;
  const bool datagrams = hints.ai_port_space == RDMA_PS_UDP ||
                         hints.ai_port_space == RDMA_PS_IPOIB ||
                         hints.ai_qp_type == IBV_QPT_UD;
  wanted.ai_socktype = datagrams ? SOCK_DGRAM : SOCK_STREAM;
  return wanted;
}

rdma_addrinfo* NewInfo(const rdma_addrinfo& hints) {
  auto* info = new rdma_addrinfo();
  info->ai_flags = hints.ai_flags;
  info->ai_family = hints.ai_family;
  info->ai_qp_type = hints.ai_qp_type;
  info->ai_port_space = hints.ai_port_space;
  return info;
}

// The address is where a passive side listens, and where an active one connects
// to.
rdma_addrinfo* Convert(const addrinfo& found, const rdma_addrinfo& hints) {
  rdma_addrinfo* info = NewInfo(hints);
  info->ai_family = found.ai_family;
  const bool datagrams = found.ai_socktype == SOCK_DGRAM;
  if (info->ai_qp_type == 0) {
    info->ai_qp_type = datagrams ? IBV_QPT_UD : IBV_QPT_RC;
  }
  if (info->ai_port_space == 0) {
    info->ai_port_space = datagrams ? RDMA_PS_UDP : RDMA_PS_TCP;
  }
  const bool passive = (hints.ai_flags & RAI_PASSIVE) != 0;
  (passive ? info->ai_src_addr : info->ai_dst_addr) =
      CopyOf(found.ai_addr, found.ai_addrlen);
  (passive ? info->ai_src_len : info->ai_dst_len) = found.ai_addrlen;
  if (found.ai_canonname != nullptr) {
    (passive ? info->ai_src_canonname : info->ai_dst_canonname) =
        ::strdup(found.ai_canonname);
  }
  return info;
}

// Copies the addresses that the user knew already.
void CopyAddresses(const rdma_addrinfo& hints, rdma_addrinfo& info) {
  if (info.ai_src_addr == nullptr && hints.ai_src_len != 0) {
    info.ai_src_addr = CopyOf(hints.ai_src_addr, hints.ai_src_len);
    info.ai_src_len = hints.ai_src_len;
  }
  if (info.ai_dst_addr == nullptr && hints.ai_dst_len != 0) {
    info.ai_dst_addr = CopyOf(hints.ai_dst_addr, hints.ai_dst_len);
    info.ai_dst_len = hints.ai_dst_len;
  }
}

}  // namespace

// Makes one entry for each address that getaddrinfo() finds, in its order.
// Without a name there is nothing to look up, and the hints alone make the
// entry.
int GetAddressInfo(const char* node, const char* service,
                   const rdma_addrinfo* hints, rdma_addrinfo** result) {
  if (node == nullptr && service == nullptr && hints == nullptr) {
    errno = EINVAL;
    return -1;
  }
  const rdma_addrinfo no_hints = {};
  const rdma_addrinfo& wanted = hints == nullptr ? no_hints : *hints;
  if (node == nullptr && service == nullptr) {
    *result = NewInfo(wanted);
    CopyAddresses(wanted, **result);
    return 0;
  }
  const addrinfo socket_hints = HintsFor(wanted);
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(node, service, &socket_hints, &found);
  if (error != 0) return error;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(
      found, ::freeaddrinfo);
  rdma_addrinfo** last = result;
  for (; found != nullptr; found = found->ai_next) {
    *last = Convert(*found, wanted);
    CopyAddresses(wanted, **last);
    last = &(*last)->ai_next;
  }
  return 0;
}

void FreeAddressInfo(rdma_addrinfo* list) {
  while (list != nullptr) {
    rdma_addrinfo* next = list->ai_next;
    FreeOne(list);
    list = next;
  }
}

}  // namespace verbena::soft
