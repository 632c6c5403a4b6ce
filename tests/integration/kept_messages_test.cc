// A server keeps the messages of calls that are over for later ones: what it
// keeps is bounded by the memory that they take.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/empty.pb.h"
#include "gtest/gtest.h"
#include "rpc/support/methods.h"
#include "rpc/support/stub_support.h"
#include "tests/integration/end_to_end_fixture.h"

namespace verbena::end_to_end {
namespace {

using google::protobuf::DescriptorProto;
using google::protobuf::Empty;

constexpr char kMeasure[] = "test.Memory/Measure";

// The bound, and what a KiB of requests may unfold to.
constexpr size_t kMost = size_t{3} * (64 << 10);

// Notes how much memory a request has, be it used or left from earlier ones.
class MemoryService final : public Service {
 public:
  MemoryService() : Service("test.Memory") {
    set_handler_mode(HandlerMode::kInline);
    AddMethod(internal::NewTypedMethod<RpcType::kUnary, DescriptorProto, Empty>(
        kMeasure,
        [this](ServerContext*, const DescriptorProto* request, Empty*) {
          bytes_ = request->SpaceUsedLong();
          return absl::OkStatus();
        }));
  }

  size_t bytes() const { return bytes_; }

 private:
  // Memory of the last request. The client reads it when the call has ended.
  size_t bytes_ = 0;
};

class KeptMessagesTest : public EndToEndTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(StartServer([this](ServerBuilder& builder) {
      builder.RegisterService(&service_);
    }));
    channel_ = NewChannel();
  }
  ~KeptMessagesTest() override { StopServer(); }

  // Returns how much memory this request has at the server.
  size_t BytesOf(const DescriptorProto& request) {
    static constexpr MethodDescriptor method(kMeasure);
    ClientContext context;
    Empty reply;
    EXPECT_EQ(BlockingUnaryCall(*channel_, method, &context, request, &reply),
              absl::OkStatus());
    return service_.bytes();
  }

  MemoryService service_;
  std::shared_ptr<Channel> channel_;
};

TEST_F(KeptMessagesTest, DoNotKeepWhatAShortRequestUnfoldsTo) {
  DescriptorProto unfolding;
  for (int i = 0; i < 10000; ++i) unfolding.add_nested_type();
  EXPECT_LT(unfolding.ByteSizeLong(), 32u << 10);
  EXPECT_GT(BytesOf(unfolding), 1u << 20);
  EXPECT_LT(BytesOf(DescriptorProto()), kMost);
}

// Each adds a little to what the ones before have left.
TEST_F(KeptMessagesTest, DoNotKeepWhatManySmallRequestsAddUpTo) {
  size_t most = 0;
  for (int i = 0; i < 100; ++i) {
    DescriptorProto small;
    for (int j = 0; j < i; ++j) small.add_nested_type();
    DescriptorProto* const last = small.add_nested_type();
    for (int j = 0; j < 100; ++j) last->add_nested_type();
    EXPECT_LT(small.ByteSizeLong(), 512u);
    most = std::max(most, BytesOf(small));
  }
  EXPECT_LT(most, kMost);
}

TEST_F(KeptMessagesTest, KeepWhatIsSmall) {
  DescriptorProto request;
  for (int i = 0; i < 10; ++i) request.add_nested_type();
  const size_t bytes = BytesOf(request);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(BytesOf(DescriptorProto()), bytes);
  }
}

}  // namespace
}  // namespace verbena::end_to_end
