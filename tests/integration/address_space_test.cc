// Large calls with less and less address space for them than they need, at one
// side and at the other: a Status says so, and all goes on.

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/testing/child_process.h"

namespace verbena::end_to_end {
namespace {

using ::testing::HasSubstr;
using testing_support::ChildProcess;
using testing_support::WordAfter;

// A reply that leaves room in a region of 64 MiB.
constexpr size_t kLargeReply = 60'000'000;
// A message larger than the heap that a thread reserves, 64 MiB, and just
// within the default limits of messages: one that fits may find that heap
// empty.
constexpr size_t kBeyondHeap = 67'500'000;

// Limits the address space of `process` to `room` bytes more, while it lives.
class AddressLimit {
 public:
  AddressLimit(pid_t process, uint64_t room) : process_(process) {
    uint64_t pages = 0;
    std::FILE* const file =
        std::fopen(absl::StrCat("/proc/", process, "/statm").c_str(), "r");
    EXPECT_EQ(std::fscanf(file, "%lu", &pages), 1);
    std::fclose(file);
    EXPECT_EQ(prlimit(process, RLIMIT_AS, nullptr, &usual_), 0);
    rlimit limit = usual_;
    limit.rlim_cur = pages * 4096 + room;
    EXPECT_EQ(prlimit(process, RLIMIT_AS, &limit, nullptr), 0);
  }
  ~AddressLimit() {
    EXPECT_EQ(prlimit(process_, RLIMIT_AS, &usual_, nullptr), 0);
  }

 private:
  const pid_t process_;
  rlimit usual_ = {};
};

class AddressSpaceTest : public testing::Test {
 protected:
  AddressSpaceTest()
      : server_({"/bin/sh", "-c",
                 "VERBENA_DEVICE=soft exec \"$0\" --listen=127.0.0.1:0",
                 EndToEndServerPath()}) {
    ChannelOptions options;
    // A part for which there was no memory is not a damaged one.
    options.checksum = true;
    options.device = "soft";
    stub_ = EndToEnd::NewStub(
        CreateChannel(WordAfter("listening on ", server_.ReadLine()), options));
    EXPECT_EQ(EchoProblem(*stub_, 64, 1), "");
  }

  absl::Status Call(const EchoRequest& request) {
    ClientContext context;
    EchoReply reply;
    return stub_->Echo(&context, request, &reply);
  }

  // Makes the call with ever more room in that process, until there is enough.
  // Returns all that it was said to lack.
  std::string CallUntilThereIsRoom(pid_t process, const EchoRequest& request) {
    constexpr uint64_t kStep = uint64_t{8} << 20;
    std::string complaints;
    for (uint64_t room = kStep; room < 100 * kStep; room += kStep) {
      absl::Status status;
      {
        const AddressLimit limit(process, room);
        status = Call(request);
      }
      if (status.ok()) return complaints;
      EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
      EXPECT_THAT(status.ToString(), HasSubstr("`ulimit -v`"));
      EXPECT_EQ(EchoProblem(*stub_, 64, 1), "");
      absl::StrAppend(&complaints, status.message(), "\n");
    }
    ADD_FAILURE() << "never enough";
    return complaints;
  }

  ChildProcess server_;
  std::unique_ptr<EndToEnd::Stub> stub_;
};

TEST_F(AddressSpaceTest, AClientThatLacksItForRepliesSaysSo) {
  EchoRequest request;
  request.set_reply_bytes(kLargeReply);
  const std::string complaints = CallUntilThereIsRoom(getpid(), request);
  EXPECT_THAT(complaints, HasSubstr("no memory for the reply"));
  EXPECT_THAT(complaints, HasSubstr("no memory to parse"));
}

TEST_F(AddressSpaceTest, AServerThatLacksItForRequestsSaysSo) {
  EchoRequest request;
  request.set_payload(std::string(kBeyondHeap, 'x'));
  request.set_reply_bytes(1);
  const std::string complaints = CallUntilThereIsRoom(server_.pid(), request);
  EXPECT_THAT(complaints, HasSubstr("mmap"));
  EXPECT_THAT(complaints, HasSubstr("no memory to parse"));
}

TEST_F(AddressSpaceTest, AServerThatLacksItInAHandlerSaysSo) {
  EchoRequest request;
  request.set_reply_bytes(kBeyondHeap);
  EXPECT_THAT(CallUntilThereIsRoom(server_.pid(), request),
              HasSubstr("the handler ran out of memory"));
}

}  // namespace
}  // namespace verbena::end_to_end
