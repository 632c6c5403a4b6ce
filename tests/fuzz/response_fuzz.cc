// The frames of one server, from several SENDs to the parts of a reply, with a
// lease of any length.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "tests/fuzz/fuzz_input.h"
#include "transport/base/buffer.h"
#include "transport/base/check.h"
#include "transport/base/limits.h"
#include "transport/client/client_arenas.h"
#include "transport/client/client_call.h"
#include "transport/client/response_reader.h"
#include "transport/memory/buffer_pool.h"
#include "transport/memory/fake_registrar.h"
#include "transport/session/frame_assembly.h"
#include "transport/wire/frame.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {
namespace {

using fuzz::FuzzInput;
using fuzz::ReadAll;

class ResponseFuzzer {
 public:
  explicit ResponseFuzzer(FuzzInput input) : input_(input) {}

  void Run() {
    BufferPool::Options options;
    options.first_region_bytes = size_t{1} << 20;
    options.max_bytes = options.largest_bytes = options.first_region_bytes;
    options.max_regions = 1;
    pool_ = *BufferPool::Create(registrar_.pd(), options);
    arenas_.emplace(*pool_, kMaxMessageBytes);
    while (!input_.empty() && Next()) {
    }
  }

 private:
  // Takes a frame as a connection does; false when that would close.
  bool Next() {
    const absl::Span<const uint8_t> given =
        input_.Bytes(input_.Take<uint16_t>());
    const std::vector<uint8_t> frame(given.begin(), given.end());
    if (FrameError(frame) != nullptr) return false;
    if (!assembly_.Concerns(frame)) return Read(frame, nullptr);
    if (assembly_.Add(frame, pool_.get()) != nullptr) return false;
    if (!assembly_.complete()) return true;
    const Buffer whole = assembly_.Take();
    // Its users look no further.
    CHECK(FrameError(whole.span()) == nullptr) << FrameError(whole.span());
    return Read(whole.span(), &whole);
  }

  bool Read(absl::Span<const uint8_t> frame, const Buffer* whole) {
    if (LoadHeader<FrameHeader>(frame).type != FrameType::kResponse) {
      return true;
    }
    Buffer lease = pool_->AllocateOrPlain(input_.Take<uint16_t>());
    CallResponse response;
    Buffer message;
    Buffer attachment;
    if (ReadResponse(frame, whole, std::move(lease), *arenas_, &response,
                     &message, &attachment) != nullptr) {
      return false;
    }
    ReadAll(response.status_message);
    ReadAll(response.metadata);
    ReadAll(response.message);
    if (response.attachment == nullptr) return true;
    CHECK_EQ(response.attachment->size(),
             LoadHeader<ResponseHeader>(frame).attachment_bytes);
    ReadAll(response.attachment->span());
    return true;
  }

  FuzzInput input_;
  FakeRegistrar registrar_;
  std::unique_ptr<BufferPool> pool_;
  std::optional<ClientArenas> arenas_;  // They are the pool.
  FrameAssembly assembly_;
};

}  // namespace
}  // namespace verbena::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::transport::ResponseFuzzer({data, size}).Run();
  return 0;
}
