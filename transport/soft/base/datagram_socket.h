// Datagrams between the processes of one host: sockets in the abstract name
// space of Unix, named by queue pair numbers.

#ifndef VERBENA_TRANSPORT_SOFT_BASE_DATAGRAM_SOCKET_H_
#define VERBENA_TRANSPORT_SOFT_BASE_DATAGRAM_SOCKET_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "transport/base/unique_fd.h"

namespace verbena::soft {

// Opens the non-blocking socket of queue pair `number`. Returns 0 or an errno:
// EADDRINUSE when a process of this host has it.
int OpenDatagramSocket(uint32_t number, base::UniqueFd& socket);

// Opens a non-blocking socket that only sends. Returns 0 or an errno.
int OpenDatagramSender(base::UniqueFd& socket);

// Opens a socket that is named by a role, which one process of the host can
// have. Returns 0 or an errno: EADDRINUSE when another has it.
int OpenRoleSocket(const std::string& role, base::UniqueFd& socket);

// Sends `parts` as one datagram to the queue pair of that number. Never blocks.
// Returns 0 or an errno: EAGAIN when the receiver, or `socket`, has as many
// unread datagrams as it can have, EFAULT when a part is not readable memory,
// ECONNREFUSED when there is no such queue pair.
int SendToQueuePair(int socket, uint32_t number, const iovec* parts, int count);

// Does the same to the process that has `role`.
int SendToRole(int socket, const std::string& role, const iovec* parts,
               int count);

// Receives one datagram. Never blocks. Returns its whole length, which is more
// than `capacity` when it was cut, or -1 when there is none.
ssize_t ReceiveDatagram(int socket, std::byte* bytes, size_t capacity);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_BASE_DATAGRAM_SOCKET_H_
