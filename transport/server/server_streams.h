// The streams of one connection's calls at the server.

#ifndef VERBENA_TRANSPORT_SERVER_SERVER_STREAMS_H_
#define VERBENA_TRANSPORT_SERVER_SERVER_STREAMS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "transport/server/bulk_transfers.h"
#include "transport/server/reply_sender.h"
#include "transport/server/server_call.h"
#include "transport/server/server_shared.h"
#include "transport/streams/long_message.h"
#include "transport/streams/open_streams.h"
#include "transport/wire/frame.h"
#include "transport/wire/placement.h"

namespace verbena::transport {

// Handles DATA, WINDOW, MESSAGE and the LEASEs of streams, moves their long
// messages, and ends them: the RESPONSE goes behind all that the handler has
// written. Poller thread only.
class ServerStreams final : private LongMessageCarrier {
 public:
  ServerStreams(ServerShared& shared, ReplySender& replies)
      : shared_(shared),
        connection_(shared.connection),
        replies_(replies),
        line_(shared.connection, *this) {}
  ServerStreams(const ServerStreams&) = delete;
  ServerStreams& operator=(const ServerStreams&) = delete;

  // Opens the stream of `call`. RESOURCE_EXHAUSTED if the connection has as
  // many as it may.
  absl::Status Open(ServerCall* call);

  void HandleData(absl::Span<const uint8_t> frame);
  void HandleWindow(absl::Span<const uint8_t> frame);
  void HandleLongMessage(absl::Span<const uint8_t> frame);
  void HandleLease(const LeaseHeader& header, ServerCall* call);

  // The handler has finished the call. Its RESPONSE goes when all that was
  // written is sent, or, if `failure` is not OK, says that, and goes when the
  // device is done with the client's memory.
  void Finish(ServerCall* call, const absl::Status& failure);
  // As Finish() with a failure, for a call that is kDraining already.
  void FailDraining(ServerCall* call, const absl::Status& failure);
  // Sends the RESPONSEs of streams of which all else is sent.
  void FinishDrained();

  // Sends what the streams have to send, as far as it can. Returns whether
  // something waits for the connection.
  bool Send() { return line_.Send(); }
  uint32_t waiting() const { return line_.waiting(); }
  // Whether all of a WRITE was posted since the last call: its MESSAGE may go.
  bool TakeWritePosted() { return std::exchange(write_posted_, false); }

  // A WRITE of a stream is posted, or a READ is here.
  void OnWritePosted(ServerCall* call);
  void OnReadDone(ServerCall* call, uint64_t number);
  // Tries again to READ messages that found no memory.
  void ServeReadWaiters();
  bool has_read_waiters() const { return !read_waiters_.empty(); }

 private:
  // Returns the call of an open stream, if its messages are still wanted; null
  // if not, or after a ProtocolError().
  ServerCall* Find(uint32_t call_id);
  // Returns the call if its stream is open, else null.
  ServerCall* FindOpen(uint32_t call_id);
  // Ends a stream that cannot be read further: its call ends with the failure.
  void Fail(ServerCall* call);

  // As LongMessageCarrier.
  Outcome SendLong(uint32_t call_id, LongMessage* message) override;
  // The client lends, not the server.
  Outcome SendLease(uint32_t /*call_id*/, uint64_t /*bytes*/,
                    uint64_t /*unread*/) override {
    return Outcome::kWait;
  }
  bool StartRead(uint32_t call_id, uint64_t number,
                 IncomingMessage* message) override;
  // Gives back a lease of the stream, all of which are too short.
  Outcome ReturnLease(ServerCall* call);
  Outcome StartWrite(ServerCall* call, const LongMessage& message,
                     Placement place);
  Outcome SendWritten(ServerCall* call, const LongMessage& message,
                      Placement place);
  void StartTransfer(ServerCall* call, ibv_wr_opcode opcode,
                     const Buffer& local,
                     const RemoteArenas::RemoteRange& remote, uint64_t number);

  ServerShared& shared_;
  Connection& connection_;  // The shared one.
  ReplySender& replies_;
  OpenStreams line_;
  bool write_posted_ = false;  // See TakeWritePosted().
  // The ids of calls whose stream waits for memory to READ into.
  std::vector<uint32_t> read_waiters_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SERVER_SERVER_STREAMS_H_
