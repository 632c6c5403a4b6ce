#include "transport/verbs/error.h"

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace verbena::transport {
namespace {

// Sorts errnos by the remedy: another name or argument, more resources, more
// rights, another state, or another attempt.
absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENODEV:
    case ENOENT:
    case ENXIO:
      return absl::StatusCode::kNotFound;
    case ENOMEM:
    case ENOSPC:
    case ENOBUFS:
    case EMFILE:
    case ENFILE:
    case EUSERS:
      return absl::StatusCode::kResourceExhausted;
    case EACCES:
    case EPERM:
      return absl::StatusCode::kPermissionDenied;
    case EADDRINUSE:
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case EINVAL:
    case EFAULT:
    case EMSGSIZE:
    case EAFNOSUPPORT:
    case EADDRNOTAVAIL:
      return absl::StatusCode::kInvalidArgument;
    case EBUSY:
    case EISCONN:
    case ENOTCONN:
    case EALREADY:
      return absl::StatusCode::kFailedPrecondition;
    case EOPNOTSUPP:
    case ENOSYS:
    case EPROTONOSUPPORT:
      return absl::StatusCode::kUnimplemented;
    case EAGAIN:
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case EIO:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case ETIMEDOUT:
      return absl::StatusCode::kUnavailable;
    case ECANCELED:
      return absl::StatusCode::kCancelled;
    default:
      return absl::StatusCode::kUnknown;
  }
}

// Memory that a device may touch is pinned, and the kernel counts it against a
// limit that many distributions set to 64 KiB to 8 MiB.
bool PinsMemory(absl::string_view verb) {
  return verb == "reg_mr" || verb == "create_cq" || verb == "create_qp" ||
         verb == "create_srq";
}

// The kernel answers the first or the second, by driver, when the limit is met,
// and the third where it is zero.
bool MeetsLockLimit(absl::string_view verb, int error) {
  return (PinsMemory(verb) && (error == ENOMEM || error == EAGAIN)) ||
         (verb == "reg_mr" && error == EPERM);
}

// Looks first for pairs of a verb and an errno that mean a limit. For the
// others the errno alone decides.
absl::string_view RemedyOf(absl::string_view verb, int error) {
  if (MeetsLockLimit(verb, error)) {
    return "the limit on locked memory may be too low: see `ulimit -l`; raise "
           "it with LimitMEMLOCK=infinity in a systemd unit, `memlock "
           "unlimited` in /etc/security/limits.conf, or `--ulimit memlock=-1` "
           "for a container";
  }
  if (verb == "mmap" && error == ENOMEM) {
    return "the process has reached its limit of address space, or the machine "
           "has no memory left: see `ulimit -v`, memory.max of the control "
           "group, and vm.max_map_count";
  }
  if (error == ENOSPC &&
      (verb == "epoll_ctl" || verb == "listen" || verb == "connect")) {
    return "this user has reached the limit of watched descriptors: see "
           "fs.epoll.max_user_watches";
  }
  switch (error) {
    case EACCES:
    case EPERM:
      return "this process may not use the RDMA device files "
             "(/dev/infiniband/uverbs*, /dev/infiniband/rdma_cm): check their "
             "owner and mode, and that a container is given them";
    case ENODEV:
      if (verb == "create_event_channel" || verb == "get_device_list") {
        return "no RDMA device, or the rdma_ucm and ib_uverbs kernel modules "
               "are not loaded";
      }
      return "";
    case EMFILE:
    case ENFILE:
      return "too many open files: see `ulimit -n`";
    case EUSERS:  // Only the software device says this.
      return "no further thread can be started: see `ulimit -u` and `ulimit "
             "-v`, and pids.max of the control group";
    case EADDRINUSE:
      return "another server already listens there";
    case EADDRNOTAVAIL:
      return "this host does not have the address, or no RDMA device has it";
    default:
      return "";
  }
}

}  // namespace

// Builds "VERB OBJECT: REASON (REMEDY)". A limit on locked memory overrides the
// code of the errno, which says ENOMEM, EAGAIN or EPERM for it.
absl::Status ErrnoStatus(absl::string_view verb, absl::string_view object,
                         int error) {
  // Events of the connection manager bring negative errnos.
  error = std::abs(error);
  std::string message(verb);
  if (!object.empty()) absl::StrAppend(&message, " ", object);
  absl::StrAppend(&message, ": ",
                  error == 0 ? "failed without an error number"
                             : std::generic_category().message(error));
  const absl::string_view remedy = RemedyOf(verb, error);
  if (!remedy.empty()) absl::StrAppend(&message, " (", remedy, ")");
  return absl::Status(MeetsLockLimit(verb, error)
                          ? absl::StatusCode::kResourceExhausted
                          : CodeOf(error),
                      message);
}

}  // namespace verbena::transport
