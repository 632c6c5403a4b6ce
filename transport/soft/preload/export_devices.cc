// libibverbs: devices, contexts and the questions about them.

#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "transport/soft/preload/next_definition.h"
#include "transport/soft/preload/soft_objects.h"

// The functions behind the macros.
#undef ibv_get_device_list
#undef ibv_query_port

namespace verbena::soft {
namespace {

// The bytes that the exported ibv_query_port fills: the oldest part of the
// attributes.
constexpr size_t kOldPortBytes = offsetof(ibv_port_attr, port_cap_flags2);

// Whether `address` is code of librdmacm. It has no use for a device that the
// kernel does not know.
bool IsInLibrdmacm(const void* address) {
  Dl_info info;
  return ::dladdr(address, &info) != 0 && info.dli_fname != nullptr &&
         std::strstr(info.dli_fname, "librdmacm") != nullptr;
}

// A null GID is an unused entry.
bool IsUsed(const ibv_gid& gid) {
  return gid.global.subnet_prefix != 0 || gid.global.interface_id != 0;
}

// Returns 0 or an errno: ENODATA for an unused entry.
int QueryGidEntry(ibv_context* context, uint32_t port, uint32_t index,
                  ibv_gid_entry& entry) {
  entry = {};
  entry.gid_index = index;
  entry.port_num = port;
  entry.gid_type = IBV_GID_TYPE_ROCE_V2;
  if (Soft().verbs.query_gid(context, static_cast<uint8_t>(port),
                             static_cast<int>(index), &entry.gid) != 0) {
    return EINVAL;
  }
  return IsUsed(entry.gid) ? 0 : ENODATA;
}

}  // namespace

extern "C" {

ibv_device** ibv_get_device_list(int* num_devices) {
  // The return address tells who asks.
  return GetDeviceList(!IsInLibrdmacm(__builtin_return_address(0)),
                       num_devices);
}

void ibv_free_device_list(ibv_device** list) { FreeDeviceList(list); }

int ibv_get_device_index(ibv_device* device) {
  if (IsSoft(device)) return SoftDeviceIndex();
  static const decltype(&ibv_get_device_index) next =
      NextDefinition("ibv_get_device_index");
  return next(device);
}

__be64 ibv_get_device_guid(ibv_device* device) {
  if (!IsSoft(device)) {
    static const decltype(&ibv_get_device_guid) next =
        NextDefinition("ibv_get_device_guid");
    return next(device);
  }
  // The table has no question about a device, only about a context.
  ibv_context* context = Soft().verbs.open_device(device);
  if (context == nullptr) return 0;
  ibv_device_attr attributes;
  Soft().verbs.query_device(context, &attributes);
  Soft().verbs.close_device(context);
  return attributes.node_guid;
}

ibv_context* ibv_open_device(ibv_device* device) {
  return VerbsOf(device).open_device(device);
}

int ibv_close_device(ibv_context* context) {
  const int error = VerbsOf(context).close_device(context);
  // libibverbs closes a device whatever objects of it are left, and programs
  // rely on that. Here such objects, and the context, are left to the end of
  // the process.
  return error == EBUSY && IsSoft(context) ? 0 : error;
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  return VerbsOf(context).query_device(context, attributes);
}

int ibv_query_port(ibv_context* context, uint8_t port,
                   _compat_ibv_port_attr* attributes) {
  if (!IsSoft(context)) {
    static const decltype(&ibv_query_port) next =
        NextDefinition("ibv_query_port");
    return next(context, port, attributes);
  }
  ibv_port_attr all;
  const int error = Soft().verbs.query_port(context, port, &all);
  if (error == 0) std::memcpy(attributes, &all, kOldPortBytes);
  return error;
}

int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  return VerbsOf(context).query_gid(context, port, index, gid);
}

int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index,
                      ibv_gid_entry* entry, uint32_t flags, size_t entry_size) {
  if (!IsSoft(context)) {
    static const decltype(&_ibv_query_gid_ex) next =
        NextDefinition("_ibv_query_gid_ex");
    return next(context, port, index, entry, flags, entry_size);
  }
  if (flags != 0) return errno = EOPNOTSUPP;
  ibv_gid_entry whole;
  const int error = QueryGidEntry(context, port, index, whole);
  if (error != 0) return errno = error;
  std::memcpy(entry, &whole, std::min(entry_size, sizeof(whole)));
  return 0;
}

// Lists the used entries of all ports, in the size that the caller knows.
ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries,
                             size_t entries_max, uint32_t flags,
                             size_t entry_size) {
  if (!IsSoft(context)) {
    static const decltype(&_ibv_query_gid_table) next =
        NextDefinition("_ibv_query_gid_table");
    return next(context, entries, entries_max, flags, entry_size);
  }
  if (flags != 0) return -EOPNOTSUPP;
  if (entry_size > sizeof(ibv_gid_entry)) return -EINVAL;
  ibv_device_attr device;
  Soft().verbs.query_device(context, &device);
  size_t count = 0;
  for (uint32_t port = 1; port <= device.phys_port_cnt; ++port) {
    ibv_port_attr attributes;
    Soft().verbs.query_port(context, static_cast<uint8_t>(port), &attributes);
    for (int index = 0; index < attributes.gid_tbl_len; ++index) {
      ibv_gid_entry entry;
      if (QueryGidEntry(context, port, index, entry) != 0) continue;
      if (count == entries_max) return -EINVAL;
      std::memcpy(reinterpret_cast<char*>(entries) + count * entry_size, &entry,
                  entry_size);
      ++count;
    }
  }
  return static_cast<ssize_t>(count);
}

// ibv_query_gid_type() is not in the public header, though Debian's ibv_devinfo
// calls it. Writes the type that the kernel's sysfs gives (0: InfiniBand or
// RoCE v1, 1: RoCE v2).
int ibv_query_gid_type(ibv_context* context, uint8_t port, unsigned int index,
                       int* type) {
  if (!IsSoft(context)) {
    static const decltype(&ibv_query_gid_type) next =
        NextDefinition("ibv_query_gid_type");
    return next(context, port, index, type);
  }
  ibv_gid gid;
  *type = 1;
  return Soft().verbs.query_gid(context, port, static_cast<int>(index), &gid);
}

int ibv_query_pkey(ibv_context* context, uint8_t port, int index,
                   __be16* pkey) {
  return VerbsOf(context).query_pkey(context, port, index, pkey);
}

int ibv_get_pkey_index(ibv_context* context, uint8_t port, __be16 pkey) {
  if (!IsSoft(context)) {
    static const decltype(&ibv_get_pkey_index) next =
        NextDefinition("ibv_get_pkey_index");
    return next(context, port, pkey);
  }
  __be16 found;
  for (int index = 0; ibv_query_pkey(context, port, index, &found) == 0;
       ++index) {
    if (found == pkey) return index;
  }
  return -1;
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return VerbsOf(context).get_async_event(context, event);
}

// The event names no device, so its object tells whose it is.
void ibv_ack_async_event(ibv_async_event* event) {
  const ibv_context* context = nullptr;
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
      context = event->element.cq->context;
      break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      context = event->element.srq->context;
      break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      context = event->element.qp->context;
      break;
    case IBV_EVENT_WQ_FATAL:
      context = event->element.wq->context;
      break;
    default:  // An event of a port or the device: nobody waits for it.
      return;
  }
  VerbsOf(context).ack_async_event(event);
}

}  // extern "C"

}  // namespace verbena::soft
