#include "transport/wire/placement.h"

#include <gtest/gtest.h>

namespace verbena::transport {
namespace {

TEST(PlacementTest, PutsIntoTheFrameWhatFitsTheMessageFirst) {
  EXPECT_TRUE(PlaceParts(100, 60, 40).all_inline());
  EXPECT_TRUE(PlaceParts(100, 0, 0).all_inline());

  const Placement attachment_out = PlaceParts(100, 60, 41);
  EXPECT_TRUE(attachment_out.message_inline);
  EXPECT_FALSE(attachment_out.attachment_inline);

  const Placement message_out = PlaceParts(100, 101, 100);
  EXPECT_FALSE(message_out.message_inline);
  EXPECT_TRUE(message_out.attachment_inline);

  const Placement both_out = PlaceParts(100, 101, 101);
  EXPECT_FALSE(both_out.message_inline);
  EXPECT_FALSE(both_out.attachment_inline);
}

TEST(PlacementTest, AlignsAnAttachmentBehindAMessage) {
  EXPECT_EQ(LeaseBytes(100, 0), 100u);
  EXPECT_EQ(LeaseBytes(0, 100), 100u);
  EXPECT_EQ(LeaseBytes(1, 100), 164u);
  EXPECT_EQ(LeaseBytes(64, 100), 164u);
  EXPECT_EQ(AlignPart(65), 128u);
}

}  // namespace
}  // namespace verbena::transport
