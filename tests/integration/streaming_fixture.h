// A client of StreamService, and words for what it sends and gets.

#ifndef VERBENA_TESTS_INTEGRATION_STREAMING_FIXTURE_H_
#define VERBENA_TESTS_INTEGRATION_STREAMING_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"

namespace verbena::end_to_end {

using ChatStream = ClientReaderWriter<Item, Item>;

inline Item NewItem(uint64_t number, size_t payload_bytes = 0) {
  Item item;
  item.set_number(number);
  item.set_payload(Pattern(payload_bytes, number));
  return item;
}

inline absl::Span<const uint8_t> Bytes(const std::string& text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()),
                             text.size());
}

// Sends `item` with `attachment`. Whether both come back. REQUIRES: both fit in
// the window, because one thread writes and then reads.
inline bool Echoes(ChatStream& stream, const Item& item,
                   const std::string& attachment = "") {
  Item answer;
  Buffer beside;
  return stream.Write(item, Bytes(attachment)) &&
         stream.Read(&answer, &beside) && answer.number() == item.number() &&
         answer.payload() == item.payload() &&
         beside.span() == Bytes(attachment);
}

class StreamingTest : public EndToEndTest {
 protected:
  // Calls what UseServer() finds.
  void Connect(const ChannelOptions& options = ChannelOptions()) {
    if (target().empty()) UseServer();
    channel_ = NewChannel(options);
    stub_ = StreamService::NewStub(channel_);
  }
  // Calls a server of this test's own.
  void Serve(const std::function<void(ServerBuilder&)>& change = {},
             const ChannelOptions& options = ChannelOptions()) {
    StartServer(change);
    Connect(options);
  }

  std::shared_ptr<Channel> channel_;
  std::unique_ptr<StreamService::Stub> stub_;
};

}  // namespace verbena::end_to_end

#endif  // VERBENA_TESTS_INTEGRATION_STREAMING_FIXTURE_H_
