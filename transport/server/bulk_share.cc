#include "transport/server/bulk_share.h"

#include <cstring>
#include <utility>

namespace verbena::transport {
namespace {

// The connection has its share of the memory. Nobody reads the text of the
// status, and a text would be allocated.
absl::Status OverShare() { return absl::UnavailableError(""); }

}  // namespace

// Asks the account first. If the pool has no memory then, AllocateReserved()
// undoes the reservation.
absl::StatusOr<Buffer> BulkShare::Allocate(size_t bytes) const {
  if (!account_->Reserve(OccupiedBytes(bytes))) return OverShare();
  return pool_.AllocateReserved(bytes, *account_);
}

Buffer BulkShare::AllocateOrNone(size_t bytes) const {
  if (bytes == 0 || bytes > max_bytes_) return Buffer();
  return Allocate(bytes).value_or(Buffer());
}

// Takes one block for each part, or a single one for both if two do not fit
// now. Afterwards both parts have memory or neither has.
absl::Status BulkShare::AllocateParts(uint64_t message_bytes,
                                      uint64_t attachment_bytes,
                                      Buffer* message, Buffer* attachment) {
  absl::Status status =
      AllocateApart(message_bytes, attachment_bytes, message, attachment);
  if (message_bytes == 0 || attachment_bytes == 0 ||
      !absl::IsUnavailable(status)) {
    return status;
  }
  // A single block may fit where two do not: each block is rounded up, and
  // the pool promises one block that holds the longest message and
  // attachment together.
  const uint64_t apart =
      OccupiedBytes(message_bytes) + OccupiedBytes(attachment_bytes);
  absl::StatusOr<Buffer> both = Allocate(message_bytes + attachment_bytes);
  if (!both.ok()) {
    // The call ends only if neither way can ever succeed. Otherwise it waits.
    const bool never =
        !absl::IsUnavailable(both.status()) && apart > max_bytes_;
    return never ? std::move(both).status() : status;
  }
  *attachment = both->Share();
  attachment->Narrow(message_bytes, attachment_bytes);
  *message = *std::move(both);
  message->Narrow(0, message_bytes);
  return absl::OkStatus();
}

// Reserves for both parts before either is allocated: calls that each held a
// part could wait for each other.
absl::Status BulkShare::AllocateApart(uint64_t message_bytes,
                                      uint64_t attachment_bytes,
                                      Buffer* message, Buffer* attachment) {
  if (message_bytes + attachment_bytes == 0) return absl::OkStatus();
  if (!account_->Reserve(OccupiedBytes(message_bytes) +
                         OccupiedBytes(attachment_bytes))) {
    over_share_ = true;
    return OverShare();
  }
  if (message_bytes > 0) {
    absl::StatusOr<Buffer> part =
        pool_.AllocateReserved(message_bytes, *account_);
    if (!part.ok()) {
      // AllocateReserved() has undone only the reservation of the message.
      account_->Unreserve(OccupiedBytes(attachment_bytes));
      return std::move(part).status();
    }
    *message = *std::move(part);
  }
  if (attachment_bytes > 0) {
    absl::StatusOr<Buffer> part =
        pool_.AllocateReserved(attachment_bytes, *account_);
    if (!part.ok()) {
      // A call that kept one part while it waits could wait for another
      // such call.
      message->Reset();
      return std::move(part).status();
    }
    *attachment = *std::move(part);
  }
  return absl::OkStatus();
}

bool BulkShare::TakeShortage() {
  const uint64_t shortages = pool_.shortages();
  const bool short_of_memory =
      shortages != std::exchange(seen_shortages_, shortages);
  return std::exchange(over_share_, false) || short_of_memory;
}

bool BulkShare::MoveOut(Buffer* buffer) const {
  // Memory that is not the pool's helps nobody who waits for the pool.
  if (!pool_.Owns(*buffer)) return true;
  Buffer plain = Buffer::PlainIfAny(buffer->size());
  if (plain.empty()) return false;
  std::memcpy(plain.data(), buffer->data(), buffer->size());
  *buffer = std::move(plain);
  return true;
}

}  // namespace verbena::transport
