#include "transport/verbs/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Message(absl::string_view verb, int error) {
  return std::string(ErrnoStatus(verb, "it", error).message());
}

TEST(ErrnoStatusTest, NamesTheVerbTheObjectAndTheCause) {
  EXPECT_EQ(ErrnoStatus("connect", "10.0.0.7:50051", ECONNREFUSED).message(),
            "connect 10.0.0.7:50051: Connection refused");
  EXPECT_EQ(ErrnoStatus("alloc_pd", "", EINVAL).message(),
            "alloc_pd: Invalid argument");
}

TEST(ErrnoStatusTest, ChoosesACodeThatTheCallerCanActOn) {
  const auto code = [](int error) {
    return ErrnoStatus("connect", "", error).code();
  };
  EXPECT_EQ(code(ENOMEM), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(EMFILE), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(ENODEV), absl::StatusCode::kNotFound);
  EXPECT_EQ(code(ECONNREFUSED), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(ETIMEDOUT), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(EHOSTUNREACH), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(EACCES), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code(EPERM), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code(EADDRINUSE), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(code(EINVAL), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(EOPNOTSUPP), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code(EBUSY), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(EUCLEAN), absl::StatusCode::kUnknown);
}

TEST(ErrnoStatusTest, NamesTheLimitThatWasMet) {
  for (const char* verb : {"create_qp", "create_event_channel", "listen"}) {
    EXPECT_THAT(Message(verb, EMFILE), HasSubstr("`ulimit -n`"));
    EXPECT_THAT(Message(verb, EMFILE), Not(HasSubstr("ulimit -l")));
    EXPECT_THAT(Message(verb, EUSERS), HasSubstr("`ulimit -u`"));
    EXPECT_THAT(Message(verb, EUSERS), HasSubstr("`ulimit -v`"));
    EXPECT_TRUE(absl::IsResourceExhausted(ErrnoStatus(verb, "", EUSERS)));
  }
}

TEST(ErrnoStatusTest, NamesTheLimitsOfMemory) {
  EXPECT_THAT(Message("mmap", ENOMEM), HasSubstr("`ulimit -v`"));
}

TEST(ErrnoStatusTest, NamesTheLimitOfWhatAUserWatches) {
  EXPECT_THAT(Message("listen", ENOSPC), HasSubstr("max_user_watches"));
  EXPECT_THAT(Message("create_qp", ENOSPC), Not(HasSubstr("max_user_watches")));
}

TEST(ErrnoStatusTest, TakesTheNumberWithEitherSign) {
  EXPECT_EQ(ErrnoStatus("accept", "", -ETIMEDOUT),
            ErrnoStatus("accept", "", ETIMEDOUT));
}

TEST(ErrnoStatusTest, IsNeverOk) {
  EXPECT_EQ(ErrnoStatus("accept", "", 0).code(), absl::StatusCode::kUnknown);
}

TEST(ErrnoStatusTest, NamesTheRemedyWhenMemoryCannotBeLocked) {
  for (const char* verb : {"reg_mr", "create_cq", "create_qp", "create_srq"}) {
    EXPECT_THAT(Message(verb, ENOMEM), HasSubstr("ulimit -l")) << verb;
    EXPECT_THAT(Message(verb, ENOMEM), HasSubstr("LimitMEMLOCK=infinity"));
    EXPECT_THAT(Message(verb, ENOMEM), HasSubstr("container"));
  }
  EXPECT_THAT(Message("alloc_pd", ENOMEM), Not(HasSubstr("ulimit -l")));
  // Where the limit is zero.
  EXPECT_THAT(Message("reg_mr", EPERM), HasSubstr("ulimit -l"));
  for (const int error : {EPERM, EAGAIN}) {
    EXPECT_TRUE(absl::IsResourceExhausted(ErrnoStatus("reg_mr", "", error)));
  }
}

TEST(ErrnoStatusTest, NamesTheDeviceFilesWhenPermissionIsMissing) {
  EXPECT_THAT(Message("open_device", EACCES), HasSubstr("/dev/infiniband"));
}

TEST(ErrnoStatusTest, NamesTheModulesWhenThereIsNoRdmaAtAll) {
  EXPECT_THAT(Message("create_event_channel", ENODEV), HasSubstr("rdma_ucm"));
}

}  // namespace
}  // namespace verbena::transport
