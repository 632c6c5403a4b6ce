// Fuzzes the decoders of metadata and of a status.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/method_hash.h"
#include "rpc/internal/codec/metadata_codec.h"
#include "rpc/internal/codec/method_name.h"
#include "rpc/internal/codec/status_text.h"
#include "rpc/metadata.h"
#include "tests/fuzz/fuzz_input.h"
#include "transport/base/check.h"

namespace verbena::internal {
namespace {

// A name is taken out of the metadata or refused, and nothing else is touched.
void CheckName(Metadata metadata) {
  const auto found = metadata.find(kMethodNameKey);
  const std::string sent = found == metadata.end() ? "" : found->second;
  const size_t others = metadata.size() - metadata.count(kMethodNameKey);
  const absl::StatusOr<std::string> name =
      TakeMethodName(MethodHash(sent), &metadata);
  CHECK_EQ(metadata.size(), others);
  if (name.ok()) {
    CHECK_EQ(*name, sent);
    CHECK_LE(name->size(), kMaxMethodNameBytes);
  } else {
    CHECK_LT(name.status().message().size(), 2 * kMaxMethodNameBytes);
  }
}

void Check(fuzz::FuzzInput input) {
  const absl::StatusCode code =
      KnownCode(static_cast<absl::StatusCode>(input.Take<int32_t>()));
  CHECK(absl::Status(code, "").code() == code);
  const absl::Status annotated =
      Annotate(absl::Status(code, fuzz::AsText(input.Bytes(input.Below(64)))),
               "the peer");
  CHECK(annotated.code() == code);

  const absl::Span<const uint8_t> bytes = input.Rest();
  Metadata metadata;
  const absl::Status status = ParseMetadata(bytes, &metadata);
  CheckName(metadata);
  const absl::StatusOr<uint32_t> length = MeasureMetadata(metadata);
  if (!status.ok() || !length.ok()) return;
  CHECK_LE(*length, bytes.size());
  std::vector<uint8_t> again(*length);
  uint8_t* const end = again.data() + again.size();
  CHECK(WriteMetadata(metadata, again.data(), end) == end);
  Metadata parsed;
  CHECK(ParseMetadata(again, &parsed).ok());
  CHECK(parsed == metadata);
}

}  // namespace
}  // namespace verbena::internal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::internal::Check({data, size});
  return 0;
}
