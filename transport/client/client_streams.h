// The streams of one connection's calls at the client.

#ifndef VERBENA_TRANSPORT_CLIENT_CLIENT_STREAMS_H_
#define VERBENA_TRANSPORT_CLIENT_CLIENT_STREAMS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "transport/client/client_call_slots.h"
#include "transport/client/client_shared.h"
#include "transport/client/sent_calls.h"
#include "transport/streams/long_message.h"
#include "transport/streams/message_stream.h"
#include "transport/streams/open_streams.h"
#include "transport/wire/frame.h"

namespace verbena::transport {

// Handles DATA, WINDOW, MESSAGE and the LEASEs that streams get back, and moves
// their long messages. Poller thread only.
class ClientStreams final : private LongMessageCarrier {
 public:
  ClientStreams(ClientShared& shared, SentCalls& sent)
      : shared_(shared),
        connection_(shared.connection),
        sent_(sent),
        line_(shared.connection, *this) {}
  ClientStreams(const ClientStreams&) = delete;
  ClientStreams& operator=(const ClientStreams&) = delete;

  // The REQUEST of the stream's call is sent.
  void Open(MessageStream* stream, uint32_t call_id) {
    stream->Open(&line_, call_id);
  }

  void HandleData(absl::Span<const uint8_t> frame);
  void HandleWindow(absl::Span<const uint8_t> frame);
  void HandleLongMessage(absl::Span<const uint8_t> frame);
  // The server gives a lease back that is too short.
  void HandleLease(absl::Span<const uint8_t> frame);

  // Sends what the streams have to send, as far as it can.
  void Send() { line_.Send(); }
  uint32_t waiting() const { return line_.waiting(); }

  // Stops spinning for messages if none has come since the last tick.
  void Tick();
  // Nobody waits for messages any more.
  void StopExpecting() { ExpectWrite(INT64_MIN); }

 private:
  // Returns the slot of the stream that a frame is about, if anybody waits for
  // it; null if not, or after a ProtocolError().
  ClientCallSlot* Find(const FrameHeader& header);

  // As LongMessageCarrier.
  Outcome SendLong(uint32_t call_id, LongMessage* message) override;
  Outcome SendLease(uint32_t call_id, uint64_t bytes, uint64_t unread) override;
  // A server's MESSAGEs are here when they are told.
  bool StartRead(uint32_t /*call_id*/, uint64_t /*number*/,
                 IncomingMessage* /*message*/) override {
    return false;
  }
  // Takes that lease of the stream; empty if there is none.
  static Buffer TakeLease(ClientCallSlot* slot, uint16_t arena,
                          uint32_t offset);
  // The server has read as many MESSAGEs as that limit says; null, or what is
  // wrong with it.
  static const char* ReleaseSent(ClientCallSlot* slot, uint64_t message_limit);
  StreamMemory& MemoryOf(uint32_t call_id);
  // Tells the poller that the server may soon write a lease of so many bytes;
  // or if they are negative that it has.
  void ExpectWrite(int64_t lease_bytes);

  ClientShared& shared_;
  Connection& connection_;  // The shared one.
  SentCalls& sent_;
  OpenStreams line_;
  // Bytes that ExpectWrite() has told the poller of, and whether a MESSAGE has
  // come since the last tick.
  int64_t expected_bytes_ = 0;
  bool message_came_ = false;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CLIENT_CLIENT_STREAMS_H_
