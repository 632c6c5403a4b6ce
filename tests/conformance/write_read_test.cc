// RDMA WRITE and READ that are allowed. What is not is in
// remote_access_test.cc.

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/conformance/differences.h"
#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

class WriteReadTest : public testing::Test {
 protected:
  WriteReadTest() : a(Large()), b(Large()) { Connect(a, b); }

  End a;
  End b;
};

TEST_F(WriteReadTest, WritesOfEverySizeArriveWithoutACompletionThere) {
  for (const size_t bytes :
       {size_t{1}, size_t{1023}, size_t{1024}, size_t{1025}, size_t{1} << 20}) {
    SCOPED_TRACE(absl::StrCat(bytes, " bytes"));
    const std::string text(bytes, static_cast<char>('a' + bytes % 7));
    a.Fill(0, text);
    b.Fill(100, std::string(bytes + 1, '#'));
    ASSERT_EQ(a.Write(1, 0, bytes, b.Address(100), b.mr->rkey), 0);
    const ibv_wc completion = a.Wait();
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    EXPECT_EQ(completion.opcode, IBV_WC_RDMA_WRITE);
    EXPECT_TRUE(b.Text(100, bytes + 1) == text + "#");
  }
  EXPECT_TRUE(b.StaysQuiet());
}

TEST_F(WriteReadTest, ReadsOfEverySizeBringWhatIsThere) {
  for (const size_t bytes :
       {size_t{1}, size_t{1023}, size_t{1024}, size_t{1025}, size_t{1} << 20}) {
    SCOPED_TRACE(absl::StrCat(bytes, " bytes"));
    const std::string text(bytes, static_cast<char>('A' + bytes % 7));
    b.Fill(100, text);
    a.Fill(0, std::string(bytes + 1, '#'));
    ASSERT_EQ(a.Read(1, 0, bytes, b.Address(100), b.mr->rkey), 0);
    const ibv_wc completion = a.Wait();
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    EXPECT_EQ(completion.opcode, IBV_WC_RDMA_READ);
    EXPECT_EQ(completion.byte_len, bytes);
    EXPECT_TRUE(a.Text(0, bytes + 1) == text + "#");
  }
}

TEST_F(WriteReadTest, NothingMayBeWrittenAndReadWithoutAKey) {
  ASSERT_EQ(a.Write(1, 0, 0, 0, 0), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  ASSERT_EQ(a.Read(2, 0, 0, 0, 0), 0);
  EXPECT_EQ(a.Outcome(2), IBV_WC_SUCCESS);
}

TEST_F(WriteReadTest, AReadIsScattered) {
  b.Fill(0, "onetwo");
  ibv_sge entries[2] = {a.Entry(0, 3), a.Entry(100, 3)};
  ibv_send_wr read = {};
  read.wr_id = 1;
  read.sg_list = entries;
  read.num_sge = 2;
  read.opcode = IBV_WR_RDMA_READ;
  read.send_flags = IBV_SEND_SIGNALED;
  read.wr.rdma = {b.Address(0), b.mr->rkey};
  ASSERT_EQ(a.Post(read), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(a.Text(0, 3) + a.Text(100, 3), "onetwo");
}

TEST_F(WriteReadTest, AWriteWithImmediateTakesAReceiveAndSaysItsLength) {
  for (const size_t bytes : {size_t{0}, size_t{9}, size_t{100'000}}) {
    SCOPED_TRACE(absl::StrCat(bytes, " bytes"));
    const std::string text(bytes, 'w');
    a.Fill(0, text);
    b.Fill(0, "untouched");
    ibv_sge entry = a.Entry(0, bytes);
    ibv_send_wr write = {};
    write.wr_id = 1;
    write.sg_list = &entry;
    write.num_sge = 1;
    write.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    write.imm_data = htonl(77);
    write.send_flags = IBV_SEND_SIGNALED;
    write.wr.rdma = {b.Address(4096), b.mr->rkey};
    ASSERT_EQ(b.Receive(7, 0, 64), 0);
    ASSERT_EQ(a.Post(write), 0);
    const ibv_wc received = b.Wait();
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(received.wr_id, 7u);
    EXPECT_EQ(received.byte_len, bytes);
    EXPECT_NE(received.wc_flags & IBV_WC_WITH_IMM, 0u);
    EXPECT_EQ(received.imm_data, htonl(77));
    EXPECT_TRUE(b.Text(4096, bytes) == text);
    EXPECT_EQ(b.Text(0, 9), "untouched");
    EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  }
}

TEST_F(WriteReadTest, AMessageBehindAWriteFindsItDone) {
  for (int i = 0; i < 20; ++i) {
    const std::string text = absl::StrCat("number ", i, " of many");
    a.Fill(0, text);
    ASSERT_EQ(b.Receive(7, 4096, 64), 0);
    ASSERT_EQ(a.Write(1, 0, text.size(), b.Address(0), b.mr->rkey, 0), 0);
    ASSERT_EQ(a.Send(2, 0, 1), 0);
    ASSERT_EQ(b.Outcome(7), IBV_WC_SUCCESS);
    EXPECT_EQ(b.Text(0, text.size()), text);
    ASSERT_EQ(a.Outcome(2), IBV_WC_SUCCESS);
  }
}

TEST_F(WriteReadTest, AMessageBehindALongWriteFindsAllOfItDone) {
  constexpr size_t kBytes = (1 << 20) + 12'345;
  const std::string text(kBytes, 'w');
  a.Fill(64, text);
  ASSERT_EQ(b.Receive(7, 0, 8), 0);
  ASSERT_EQ(a.Write(1, 64, kBytes, b.Address(1000), b.mr->rkey, 0), 0);
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  EXPECT_EQ(b.Outcome(7), IBV_WC_SUCCESS);
  EXPECT_TRUE(b.Text(1000, kBytes) == text);
}

TEST_F(WriteReadTest, CompletionsComeInTheOrderOfTheSendQueue) {
  ASSERT_EQ(b.Receive(1, 0, 64), 0);
  ASSERT_EQ(a.Read(10, 0, 1 << 20, b.Address(0), b.mr->rkey), 0);
  ASSERT_EQ(a.Send(11, 0, 4), 0);
  ASSERT_EQ(a.Read(12, 0, 8, b.Address(0), b.mr->rkey), 0);
  ASSERT_EQ(a.Write(13, 0, 8, b.Address(0), b.mr->rkey), 0);
  for (const uint64_t wr_id : {10, 11, 12, 13}) {
    EXPECT_EQ(a.Outcome(wr_id), IBV_WC_SUCCESS);
  }
}

TEST_F(WriteReadTest, AReadBehindAWriteReadsWhatWasWritten) {
  a.Fill(0, "there and back");
  ASSERT_EQ(a.Write(1, 0, 14, b.Address(0), b.mr->rkey, 0), 0);
  ASSERT_EQ(a.Read(2, 100, 14, b.Address(0), b.mr->rkey), 0);
  EXPECT_EQ(a.Outcome(2), IBV_WC_SUCCESS);
  EXPECT_EQ(a.Text(100, 14), "there and back");
}

TEST_F(WriteReadTest, AFencedMessageCarriesWhatTheReadBroughtBefore) {
  const size_t bytes = size_t{256} * 1024;
  const std::string text(bytes, 'r');
  b.Fill(0, text);
  ASSERT_EQ(b.Receive(7, 1 << 20, bytes), 0);
  ASSERT_EQ(a.Read(1, 0, bytes, b.Address(0), b.mr->rkey), 0);
  ASSERT_EQ(a.Send(2, 0, bytes, IBV_SEND_SIGNALED | IBV_SEND_FENCE), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(a.Outcome(2), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Outcome(7), IBV_WC_SUCCESS);
  EXPECT_TRUE(b.Text(1 << 20, bytes) == text);
}

TEST_F(WriteReadTest, MoreReadsThanMayBeOutstandingWaitTheirTurn) {
  const uint64_t count = uint64_t{3} * a.options.reads_max;
  ASSERT_LE(count, a.options.send_depth);
  for (uint64_t i = 0; i < count; ++i) {
    b.Fill(i * 8, absl::StrCat("read ", i % 10));
    ASSERT_EQ(a.Read(i, i * 8, 6, b.Address(i * 8), b.mr->rkey), 0);
  }
  for (uint64_t i = 0; i < count; ++i) {
    EXPECT_EQ(a.Outcome(i), IBV_WC_SUCCESS);
    EXPECT_EQ(a.Text(i * 8, 6), absl::StrCat("read ", i % 10));
  }
}

TEST_F(WriteReadTest, AReadThatIsRefusedBehindAWriteFailsAlone) {
  ASSERT_EQ(a.Write(1, 0, 8, b.Address(0), b.mr->rkey), 0);
  ASSERT_EQ(a.Read(2, 0, 8, b.Address(0), b.mr->rkey ^ 0x12345), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(a.Outcome(2), IBV_WC_REM_ACCESS_ERR);
}

// Both kinds of requests keep the responder busy.
TEST(ReadResourcesTest, MoreThanTheResponderAcceptsAreAnInvalidRequest) {
  for (const bool atomic : {false, true}) {
    EndOptions none = WithAtomics();
    none.reads_accepted = 0;
    End a;
    End b(none);
    Connect(a, b);
    ASSERT_EQ(atomic ? a.FetchAdd(1, 0, b.Address(0), b.mr->rkey, 1)
                     : a.Read(1, 0, 8, b.Address(0), b.mr->rkey),
              0);
    EXPECT_EQ(a.Outcome(1), IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(b.Word(0), 0u);
    if (Keeps(Promise::kInvalidRequestIsAnEvent)) {
      EXPECT_EQ(b.NextAsyncEvent(), IBV_EVENT_QP_REQ_ERR);
    }
  }
}

TEST(ReadResourcesTest, ARequesterWithoutAnyMakesALocalError) {
  for (const bool atomic : {false, true}) {
    EndOptions none;
    none.reads_max = 0;
    End a(none);
    End b(WithAtomics());
    Connect(a, b);
    ASSERT_EQ(atomic ? a.FetchAdd(1, 0, b.Address(0), b.mr->rkey, 1)
                     : a.Read(1, 0, 8, b.Address(0), b.mr->rkey),
              0);
    if (Keeps(Promise::kReadsThatCannotBeAreRefused)) {
      EXPECT_EQ(a.Outcome(1), IBV_WC_LOC_QP_OP_ERR);
    } else {
      EXPECT_TRUE(a.StaysQuiet());
    }
  }
}

TEST_F(WriteReadTest, TheWholeOfARegionMayBeWritten) {
  const size_t bytes = 8192;
  ibv_mr* const region = Verbs().reg_mr(b.pd, b.memory + 24, bytes, kAllAccess);
  ASSERT_NE(region, nullptr);
  a.Fill(0, std::string(bytes, 'w'));
  ASSERT_EQ(a.Write(1, 0, bytes, b.Address(24), region->rkey), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_TRUE(b.Text(24, bytes) == std::string(bytes, 'w'));
  EXPECT_EQ(Verbs().dereg_mr(region), 0);
}

}  // namespace
}  // namespace verbena::conformance
