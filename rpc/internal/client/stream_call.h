// A streaming call of a client.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_STREAM_CALL_H_
#define VERBENA_RPC_INTERNAL_CLIENT_STREAM_CALL_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "google/protobuf/message_lite.h"
#include "rpc/buffer.h"
#include "rpc/client_context.h"
#include "rpc/internal/client/open_call.h"
#include "rpc/internal/stream/protobuf_stream.h"
#include "rpc/stream.h"
#include "transport/client/client_call.h"
#include "transport/streams/message_stream.h"

namespace verbena::internal {

class ChannelImpl;

// A call whose messages go by a MessageStream. Who uses it is told what happens
// to that as its Owner, and of the end by Report(): see BlockingStream, for
// threads that wait, and ReactorStream, for who is called.
class StreamCall : public OpenCall, public transport::MessageStream::Owner {
 public:
  // As the transport's call.
  void WriteRequest(uint8_t* out) override;
  void OnResponse(const transport::CallResponse& response) override;
  absl::Status OnInitialMetadata(absl::Span<const uint8_t> metadata) override;

  // As the stream's owner.
  void PostStream() override;

 protected:
  using Result = ProtobufStream::Result;

  // `owner` keeps the channel.
  StreamCall(ChannelImpl* channel, std::shared_ptr<const void> owner,
             const char* method_name, uint64_t method_id,
             ClientContext* context);
  ~StreamCall() = default;

  // Takes the context into use and starts the call. If it could not be started,
  // it is over and has its status, and false is returned.
  bool Start(RpcType type);
  // Ends a call with `status` before it is tried. Returns false.
  bool NotStarted(const absl::Status& status);

  // See ProtobufStream. A message that fails ends the call.
  Result TryRead(google::protobuf::MessageLite* message, Buffer* attachment);
  Result TryWrite(const google::protobuf::MessageLite& message,
                  Attachment attachment);
  Result TrySkip() { return Checked(typed_.Skip()); }

  // Returns the status of the call, after it has ended, and tells the
  // interceptors. Once, before the context is released.
  absl::Status TakeFinalStatus();

  ChannelImpl& channel() { return channel_; }
  transport::MessageStream& messages() { return messages_; }
  // A caller that destroys this must keep a copy while it still uses
  // the channel.
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  // Ends the call if the stream has failed.
  Result Checked(Result result);

  ChannelImpl& channel_;
  const std::shared_ptr<const void> owner_;
  transport::MessageStream messages_;
  ProtobufStream typed_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_STREAM_CALL_H_
