// Completion queues that are read field by field, and that change.

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <ctime>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/conformance/differences.h"
#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

EndOptions Extended(uint64_t fields, int completions = 16) {
  EndOptions options;
  options.extended_completions = true;
  options.fields = fields;
  options.completions = completions;
  return options;
}

// a has the extended queue.
class ExtendedCompletionsTest : public testing::Test {
 protected:
  explicit ExtendedCompletionsTest(uint64_t fields = IBV_WC_STANDARD_FLAGS)
      : a(Extended(fields)) {
    Connect(a, b);
  }

  // Polls until there is a completion; ENOENT when none comes.
  int Start() {
    const absl::Time deadline = absl::Now() + absl::Seconds(5);
    ibv_poll_cq_attr attributes = {};
    int error = ENOENT;
    do {
      error = ibv_start_poll(a.extended_cq, &attributes);
      b.RunProtocol();
    } while (error == ENOENT && absl::Now() < deadline);
    return error;
  }

  End a;
  End b;
};

TEST_F(ExtendedCompletionsTest, ACompletionIsReadFieldByField) {
  ASSERT_EQ(a.Receive(77, 0, 64), 0);
  ibv_sge entry = b.Entry(0, 5);
  ibv_send_wr request = {};
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.imm_data = htonl(0x12345678);
  ASSERT_EQ(b.Post(request), 0);
  ASSERT_EQ(Start(), 0);
  ibv_cq_ex* const cq = a.extended_cq;
  EXPECT_EQ(cq->wr_id, 77u);
  EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
  EXPECT_EQ(ibv_wc_read_byte_len(cq), 5u);
  EXPECT_NE(ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM, 0u);
  EXPECT_EQ(ibv_wc_read_imm_data(cq), htonl(0x12345678));
  EXPECT_EQ(ibv_wc_read_qp_num(cq), a.qp->qp_num);
  EXPECT_EQ(ibv_wc_read_vendor_err(cq), 0u);
  EXPECT_EQ(ibv_wc_read_slid(cq), 0u);
  EXPECT_EQ(ibv_wc_read_sl(cq), 0);
  EXPECT_EQ(ibv_wc_read_dlid_path_bits(cq), 0);
  ibv_end_poll(cq);
}

TEST_F(ExtendedCompletionsTest, AnErrorIsReadToo) {
  ASSERT_EQ(a.Write(9, 0, 8, b.Address(0), b.mr->rkey ^ 0x55), 0);
  ASSERT_EQ(Start(), 0);
  EXPECT_EQ(a.extended_cq->wr_id, 9u);
  EXPECT_EQ(a.extended_cq->status, IBV_WC_REM_ACCESS_ERR);
  ibv_end_poll(a.extended_cq);
}

TEST_F(ExtendedCompletionsTest, SeveralAreTakenOneByOne) {
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(b.Receive(0, 0, 64), 0);
    ASSERT_EQ(a.Send(i, 0, 8), 0);
  }
  const bool to_the_end = Keeps(Promise::kPollingToTheEndTakesWhatWasThere);
  uint64_t expected = 0;
  while (expected < 3) {
    ASSERT_EQ(Start(), 0);
    do {
      EXPECT_EQ(a.extended_cq->wr_id, expected++);
    } while (to_the_end && ibv_next_poll(a.extended_cq) == 0);
    ibv_end_poll(a.extended_cq);
  }
  EXPECT_TRUE(a.StaysQuiet());
}

TEST_F(ExtendedCompletionsTest, TheOrdinaryPollTakesThemToo) {
  ASSERT_EQ(b.Receive(0, 0, 64), 0);
  ASSERT_EQ(a.Send(5, 0, 8), 0);
  EXPECT_EQ(a.Outcome(5), IBV_WC_SUCCESS);
}

int CreateError(End& end, ibv_cq_init_attr_ex attributes) {
  errno = 0;
  ibv_cq_ex* const cq = ibv_create_cq_ex(end.context, &attributes);
  if (cq == nullptr) return errno;
  EXPECT_EQ(Verbs().destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  return 0;
}

// The kernel's clock: the one of the library may be a nanosecond behind.
int64_t WallClockNanos() {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

TEST(ExtendedCompletionQueueTest, TimesAreWhenTheCompletionsCame) {
  constexpr uint64_t kTimes = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                              IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  if (!Keeps(Promise::kCompletionsHaveTimes)) {
    End end;
    ibv_cq_init_attr_ex attributes = {};
    attributes.cqe = 4;
    attributes.wc_flags = kTimes;
    EXPECT_EQ(CreateError(end, attributes), EOPNOTSUPP);
    return;
  }
  End a(Extended(kTimes));
  End b;
  Connect(a, b);
  ibv_cq_ex* const cq = a.extended_cq;
  uint64_t last = 0;
  for (int i = 0; i < 20; ++i) {  // All round the queue.
    const int64_t before = WallClockNanos();
    ASSERT_EQ(b.Receive(0, 0, 64), 0);
    ASSERT_EQ(a.Send(i, 0, 8), 0);
    ibv_poll_cq_attr attributes = {};
    while (ibv_start_poll(cq, &attributes) != 0) b.RunProtocol();
    EXPECT_GT(ibv_wc_read_completion_ts(cq), last);
    last = ibv_wc_read_completion_ts(cq);
    const auto wall =
        static_cast<int64_t>(ibv_wc_read_completion_wallclock_ns(cq));
    EXPECT_GE(wall, before);
    EXPECT_LE(wall, WallClockNanos());
    ibv_end_poll(cq);
  }
}

TEST(ExtendedCompletionQueueTest, TheClockOfTheDeviceCanBeRead) {
  End end;
  ibv_values_ex values = {};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  const int error = ibv_query_rt_values_ex(end.context, &values);
  if (!Keeps(Promise::kCompletionsHaveTimes)) {
    EXPECT_EQ(error, EOPNOTSUPP);
    return;
  }
  ASSERT_EQ(error, 0);
  EXPECT_EQ(values.comp_mask, unsigned{IBV_VALUES_MASK_RAW_CLOCK});
  const auto first = values.raw_clock.tv_nsec;
  ASSERT_EQ(ibv_query_rt_values_ex(end.context, &values), 0);
  EXPECT_GT(values.raw_clock.tv_nsec, first);
}

TEST(ExtendedCompletionQueueTest, FieldsThatNobodyHasAreRefused) {
  End end;
  ibv_cq_init_attr_ex attributes = {};
  attributes.cqe = 1;
  EXPECT_EQ(CreateError(end, attributes), 0);
  for (const uint64_t field :
       {uint64_t{IBV_WC_EX_WITH_CVLAN}, uint64_t{IBV_WC_EX_WITH_FLOW_TAG},
        uint64_t{IBV_WC_EX_WITH_TM_INFO}, uint64_t{1} << 40}) {
    attributes.wc_flags = field;
    EXPECT_EQ(CreateError(end, attributes), EOPNOTSUPP);
  }
  attributes.wc_flags = 0;
  attributes.cqe = 0;
  EXPECT_EQ(CreateError(end, attributes), EINVAL);
  attributes.cqe = INT32_MAX;
  EXPECT_EQ(CreateError(end, attributes), EINVAL);
  attributes.cqe = 1;
  attributes.comp_mask = 1 << 20;
  EXPECT_EQ(CreateError(end, attributes) != 0,
            Keeps(Promise::kUnknownAttributesOfAQueueAreRefused));
}

TEST(ExtendedCompletionQueueTest, AnEventComesWhenItIsArmed) {
  EndOptions options = Extended(Keeps(Promise::kCompletionsHaveTimes)
                                    ? IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
                                    : 0);
  options.with_channel = true;
  End a(options);
  End b;
  Connect(a, b);
  ASSERT_EQ(ibv_req_notify_cq(a.cq, 0), 0);
  ASSERT_EQ(a.Receive(1, 0, 64), 0);
  ASSERT_EQ(b.Send(2, 0, 8), 0);
  a.TakeCompletionEvent();
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
}

// Moderation: an event at the latest when so many completions have come.
TEST(ModerationTest, AQueueIsModeratedOrSaysThatItIsNot) {
  EndOptions options;
  options.with_channel = true;
  End a(options);
  ibv_modify_cq_attr attributes = {};
  attributes.attr_mask = IBV_CQ_ATTR_MODERATE;
  attributes.moderate = {4, 100};
  const int error = ibv_modify_cq(a.cq, &attributes);
  if (!Keeps(Promise::kCompletionEventsAreModerated)) {
    EXPECT_EQ(error, EOPNOTSUPP);
    return;
  }
  EXPECT_EQ(error, 0);
}

}  // namespace
}  // namespace verbena::conformance
