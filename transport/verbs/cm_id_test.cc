#include "transport/verbs/cm_id.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "transport/verbs/fake_cm.h"

namespace verbena::transport {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Span<const uint8_t> Bytes(absl::string_view text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()),
                             text.size());
}

base::SocketAddress Address(absl::string_view text) {
  return *base::SocketAddress::ParseNumeric(text);
}

class CmIdTest : public testing::Test {
 protected:
  CmIdTest()
      : channel_(*EventChannel::Create(FakeProvider())),
        id_(*CmId::Create(FakeProvider(), channel_, this)) {}

  FakeId& fake() { return FakeId::From(id_.get()); }

  void SetPeer(absl::string_view text) {
    const base::SocketAddress address = Address(text);
    std::memcpy(&fake().route.addr.dst_storage, address.get(), address.size());
  }

  EventChannel channel_;
  CmId id_;
};

TEST_F(CmIdTest, SaysWhyThereIsNone) {
  const auto id = CmId::Create(AbsentProvider(), channel_);
  EXPECT_EQ(id.status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CmIdTest, IsCreatedOnItsChannelForReliableConnections) {
  EXPECT_EQ(id_.get()->channel, channel_.get());
  EXPECT_EQ(id_.get()->context, this);
  EXPECT_EQ(id_.get()->ps, RDMA_PS_TCP);
}

TEST_F(CmIdTest, PassesEveryCallOn) {
  ibv_qp_init_attr attributes = {};
  const ConnectionParameters parameters = {.private_data = Bytes("hi"),
                                           .responder_resources = 1,
                                           .initiator_depth = 2,
                                           .retry_count = 3,
                                           .rnr_retry_count = 4};
  EXPECT_TRUE(id_.BindAddr(Address("127.0.0.1:5")).ok());
  EXPECT_TRUE(id_.Listen(6).ok());
  EXPECT_TRUE(id_.ResolveAddr(Address("10.0.0.1:0"), Address("[::1]:7"),
                              absl::Seconds(2))
                  .ok());
  EXPECT_TRUE(
      id_.ResolveAddr({}, Address("[::1]:7"), absl::Nanoseconds(1)).ok());
  EXPECT_TRUE(id_.ResolveRoute(absl::InfiniteDuration()).ok());
  EXPECT_TRUE(id_.CreateQp(nullptr, &attributes).ok());
  EXPECT_TRUE(id_.Connect(parameters).ok());
  EXPECT_TRUE(id_.Accept(parameters).ok());
  EXPECT_TRUE(id_.Reject(Bytes("no")).ok());
  EXPECT_TRUE(id_.Disconnect().ok());
  EXPECT_THAT(
      fake().calls,
      ElementsAre("bind_addr 127.0.0.1:5", "listen 6",
                  "resolve_addr 10.0.0.1:0 [::1]:7 2000",
                  "resolve_addr unknown [::1]:7 1", "resolve_route 2147483647",
                  "create_qp", "connect hi 1 2 3 4", "accept hi 1 2 3 4",
                  "reject no", "disconnect"));
}

TEST_F(CmIdTest, SetsOptionsInTheirOwnSizes) {
  EXPECT_TRUE(id_.SetAckTimeout(18).ok());
  EXPECT_TRUE(id_.SetIpv6Only(true).ok());
  EXPECT_TRUE(id_.SetReuseAddress(true).ok());
  EXPECT_TRUE(id_.SetTrafficClass(184).ok());
  EXPECT_THAT(fake().calls, ElementsAre("set_option 0 3 18 of 1 bytes",
                                        "set_option 0 2 1 of 4 bytes",
                                        "set_option 0 1 1 of 4 bytes",
                                        "set_option 0 0 184 of 1 bytes"));
}

TEST_F(CmIdTest, NamesTheVerbAndThePeerInErrors) {
  SetPeer("10.0.0.7:50051");
  fake().error = ETIMEDOUT;
  const absl::Status status = id_.ResolveRoute(absl::Seconds(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("resolve_route 10.0.0.7:50051"));
}

TEST_F(CmIdTest, NamesTheAddressThatCannotBeBound) {
  fake().error = EADDRINUSE;
  const absl::Status status = id_.BindAddr(Address("127.0.0.1:5"));
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(status.message(), HasSubstr("bind_addr 127.0.0.1:5"));
}

TEST_F(CmIdTest, RefusesPrivateDataThatNoDeviceMustCarry) {
  const std::string data(300, 'x');
  const auto refused = [](const absl::Status& status) {
    return status.code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(
      refused(id_.Connect({.private_data = Bytes(data).subspan(0, 57)})));
  EXPECT_TRUE(
      refused(id_.Accept({.private_data = Bytes(data).subspan(0, 197)})));
  EXPECT_TRUE(refused(id_.Accept({.private_data = Bytes(data)})));
  EXPECT_TRUE(refused(id_.Reject(Bytes(data).subspan(0, 149))));
  EXPECT_TRUE(fake().calls.empty());
  EXPECT_TRUE(id_.Connect({.private_data = Bytes(data).subspan(0, 56)}).ok());
}

TEST_F(CmIdTest, KnowsItsAddresses) {
  EXPECT_TRUE(id_.PeerAddress().empty());
  EXPECT_TRUE(id_.LocalAddress().empty());
  SetPeer("[fd00::7]:50051");
  EXPECT_EQ(id_.PeerAddress().ToString(), "[fd00::7]:50051");
  EXPECT_EQ(id_.SrcPort(), 50051);
}

TEST_F(CmIdTest, DestroysItsQueuePairOnce) {
  ibv_qp qp = {};
  fake().qp = &qp;
  EXPECT_EQ(id_.qp(), &qp);
  id_.DestroyQp();
  id_.DestroyQp();
  EXPECT_EQ(id_.qp(), nullptr);
  EXPECT_THAT(fake().calls, ElementsAre("destroy_qp"));
}

TEST_F(CmIdTest, StaysTheSameWhenMoved) {
  rdma_cm_id* raw = id_.get();
  CmId moved = std::move(id_);
  EXPECT_EQ(moved.get(), raw);
  id_ = std::move(moved);
  EXPECT_EQ(id_.get(), raw);
}

TEST_F(CmIdTest, MigratesToAnotherChannel) {
  const EventChannel other = *EventChannel::Create(FakeProvider());
  EXPECT_TRUE(id_.MigrateTo(other).ok());
  EXPECT_EQ(id_.get()->channel, other.get());
}

TEST_F(CmIdTest, OwnsWhatItAdopts) {
  FakeId* raw = new FakeId();
  raw->channel = channel_.get();
  const CmId adopted = CmId::Adopt(FakeProvider(), raw);
  EXPECT_EQ(adopted.get(), raw);
}

}  // namespace
}  // namespace verbena::transport
