#include "transport/verbs/cm_event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <numeric>
#include <string>
#include <vector>

namespace verbena::transport {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CmEvent Event(rdma_cm_event_type type, int status) {
  CmEvent event;
  event.type = type;
  event.status = status;
  return event;
}

TEST(CmEventTest, OwnsItsPrivateData) {
  std::vector<uint8_t> data(255);
  std::iota(data.begin(), data.end(), 0);
  const std::vector<uint8_t> original = data;
  rdma_cm_id id = {};
  rdma_cm_id listener = {};
  rdma_cm_event raw = {};
  raw.event = RDMA_CM_EVENT_CONNECT_REQUEST;
  raw.id = &id;
  raw.listen_id = &listener;
  raw.param.conn.private_data = data.data();
  raw.param.conn.private_data_len = 255;
  raw.param.conn.responder_resources = 3;
  raw.param.conn.initiator_depth = 4;
  const CmEvent event = CmEvent::FromRdma(raw);
  data.assign(data.size(), 0xee);
  EXPECT_EQ(event.id, &id);
  EXPECT_EQ(event.listen_id, &listener);
  EXPECT_EQ(event.responder_resources, 3);
  EXPECT_EQ(event.initiator_depth, 4);
  EXPECT_THAT(event.private_data(), ElementsAreArray(original));
}

TEST(CmEventTest, ReadsNoParametersWhereThereAreNone) {
  rdma_cm_event raw = {};
  raw.event = RDMA_CM_EVENT_DISCONNECTED;
  raw.param.conn.private_data = reinterpret_cast<const void*>(8);
  raw.param.conn.private_data_len = 255;
  EXPECT_THAT(CmEvent::FromRdma(raw).private_data(), IsEmpty());
}

TEST(CmEventStatusTest, IsOkForProgress) {
  for (rdma_cm_event_type type :
       {RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED,
        RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_ESTABLISHED}) {
    EXPECT_TRUE(CmEventStatus(Event(type, 0), "peer").ok());
  }
}

TEST(CmEventStatusTest, IsOkForAnAddressThatMoves) {
  EXPECT_TRUE(CmEventStatus(Event(RDMA_CM_EVENT_ADDR_CHANGE, 0), "peer").ok());
}

TEST(CmEventStatusTest, NamesThePeerAndTheCause) {
  const auto status = [](rdma_cm_event_type type, int status) {
    const absl::Status result =
        CmEventStatus(Event(type, status), "10.0.0.7:50051");
    EXPECT_THAT(result.message(), HasSubstr("10.0.0.7:50051"));
    return result.ToString();
  };
  EXPECT_THAT(status(RDMA_CM_EVENT_ADDR_ERROR, -ENODEV),
              HasSubstr("NOT_FOUND"));
  EXPECT_THAT(status(RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT),
              HasSubstr("UNAVAILABLE: resolve_route"));
  // librdmacm reports -1, which is no errno, if the kernel refuses to go on.
  EXPECT_THAT(status(RDMA_CM_EVENT_CONNECT_ERROR, -1),
              HasSubstr("UNAVAILABLE: connect"));
  EXPECT_THAT(status(RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL),
              HasSubstr("INVALID_ARGUMENT"));
  EXPECT_THAT(status(RDMA_CM_EVENT_REJECTED, 8), HasSubstr("nobody listens"));
  EXPECT_THAT(status(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED),
              HasSubstr("nobody listens"));
  EXPECT_THAT(status(RDMA_CM_EVENT_REJECTED, 28),
              HasSubstr("rejected by the peer"));
  EXPECT_THAT(status(RDMA_CM_EVENT_REJECTED, 3), HasSubstr("`ulimit -n`"));
  EXPECT_THAT(status(RDMA_CM_EVENT_REJECTED, 4), HasSubstr("reason 4"));
  EXPECT_THAT(status(RDMA_CM_EVENT_REJECTED, kRejectOtherUser),
              HasSubstr("another user"));
  EXPECT_THAT(status(RDMA_CM_EVENT_REJECTED, kRejectForeignPort),
              HasSubstr("another program answers at that TCP port"));
  EXPECT_THAT(status(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT),
              HasSubstr("no answer"));
  EXPECT_THAT(status(RDMA_CM_EVENT_DISCONNECTED, 0), HasSubstr("disconnected"));
  EXPECT_THAT(status(RDMA_CM_EVENT_DEVICE_REMOVAL, 0), HasSubstr("removed"));
  EXPECT_THAT(status(RDMA_CM_EVENT_MULTICAST_ERROR, 0),
              HasSubstr("MULTICAST_ERROR"));
}

TEST(CmEventNameTest, NamesEveryEvent) {
  for (int type = 0; type <= RDMA_CM_EVENT_TIMEWAIT_EXIT; ++type) {
    EXPECT_NE(std::string(CmEventName(static_cast<rdma_cm_event_type>(type))),
              "unknown event");
  }
  EXPECT_EQ(std::string(CmEventName(static_cast<rdma_cm_event_type>(999))),
            "unknown event");
}

}  // namespace
}  // namespace verbena::transport
