#include "transport/streams/message_stream.h"

#include <utility>

#include "absl/base/optimization.h"

namespace verbena::transport {

void MessageStream::Run() {
  // Before anything is looked at: what is done from now on is posted again.
  posted_.exchange(false, std::memory_order_acq_rel);
  // A stream that is not open yet is served by Open().
  if (line_ != nullptr) line_->Serve(this);
}

void MessageStream::Open(StreamLine* line, uint32_t call_id) {
  line_ = line;
  call_id_ = call_id;
  if (ABSL_PREDICT_FALSE(writer_.keeps())) writer_.Rewind();
  line->Serve(this);
}

void MessageStream::ReleaseWrites() {
  writer_.Release();
  if (line_ != nullptr) line_->Serve(this);
}

const char* MessageStream::OnLongMessage(const MessageHeader& lengths,
                                         absl::Span<const uint8_t> body,
                                         IncomingMessage message) {
  ForbidRestart();
  const char* const error =
      reader_.OnLongMessage(lengths, body, std::move(message));
  WakeReader();
  return error;
}

// Frames that let the peer send go first: it may wait for one before it reads
// what this side sends.
MessageStream::Sent MessageStream::SendFrame(FrameSender& connection) {
  if (reader_.GrantDue()) {
    return reader_.SendWindow(connection, call_id_) ? Sent::kFrame
                                                    : Sent::kBlocked;
  }
  // READs of long messages cost no frame, so they are started in every turn.
  LongMessageCarrier& carrier = line_->carrier();
  reader_.StartReads(call_id_, carrier);
  // A READ for which there will never be memory has closed the stream.
  if (!is_open()) return Sent::kNothing;
  const Sent lent = reader_.SendLease(call_id_, carrier);
  if (lent != Sent::kNothing) return lent;
  // Fetch() empties the outbox, so a writer that waits has room before anything
  // is sent.
  WakeWriter(writer_.Fetch());
  return writer_.SendFrame(connection, call_id_, carrier);
}

// Tells the owner only when the answer is another.
void MessageStream::NoteProgress() {
  const bool pending =
      line_ != nullptr && (is_linked() || !sent_all() || GrantDue());
  if (pending == pending_) return;
  pending_ = pending;
  if (owner_ != nullptr) owner_->OnPending(pending);
}

// Reader and writer do not notice that it is not open. It is pending again,
// because it can't go on unless somebody polls.
void MessageStream::EndUnlessRestarted() {
  if (ABSL_PREDICT_TRUE(!can_restart())) return End();
  line_ = nullptr;
  if (!std::exchange(pending_, true) && owner_ != nullptr) {
    owner_->OnPending(true);
  }
}

// Tells reader and writer last: they find that the stream is over when they
// look again.
void MessageStream::End() {
  line_ = nullptr;
  reader_.End();
  const bool writer_waits = writer_.End();
  NoteProgress();
  WakeReader();
  WakeWriter(writer_waits);
}

}  // namespace verbena::transport
