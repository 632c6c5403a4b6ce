#include "transport/soft/connected/path_migration.h"

#include <gtest/gtest.h>

namespace verbena::soft {
namespace {

using Peer = PathMigration::Peer;

// The two sides of a connection; Arm() takes both to ARMED.
class PathMigrationTest : public testing::Test {
 protected:
  void Arm() {
    a_.Rearm();
    b_.Rearm();
    EXPECT_EQ(a_.OnPeer(b_.word()), Peer::kNothing);
    EXPECT_EQ(b_.OnPeer(a_.word()), Peer::kNothing);
    EXPECT_TRUE(a_.armed() && b_.armed());
  }

  PathMigration a_;
  PathMigration b_;
};

TEST_F(PathMigrationTest, BeginsMigratedWithNothingToSay) {
  EXPECT_EQ(a_.state(), IBV_MIG_MIGRATED);
  EXPECT_EQ(a_.word(), 0u);
}

TEST_F(PathMigrationTest, IsArmedWhenBothSidesAskedForIt) {
  a_.Rearm();
  EXPECT_EQ(a_.OnPeer(b_.word()), Peer::kNothing);
  EXPECT_EQ(a_.state(), IBV_MIG_REARM) << "the peer has not";
  b_.Rearm();
  EXPECT_EQ(a_.OnPeer(b_.word()), Peer::kNothing);
  EXPECT_EQ(a_.state(), IBV_MIG_ARMED);
}

TEST_F(PathMigrationTest, ThePeerFollows) {
  Arm();
  a_.Migrate();
  EXPECT_EQ(b_.OnPeer(a_.word()), Peer::kHasMigrated);
  b_.Migrate();
  EXPECT_EQ(b_.OnPeer(a_.word()), Peer::kNothing);
  EXPECT_EQ(a_.OnPeer(b_.word()), Peer::kNothing);
}

TEST_F(PathMigrationTest, TwoThatMigrateAtOnceMigrateOnce) {
  Arm();
  a_.Migrate();
  b_.Migrate();
  EXPECT_EQ(a_.OnPeer(b_.word()), Peer::kNothing);
  EXPECT_EQ(b_.OnPeer(a_.word()), Peer::kNothing);
  EXPECT_EQ(a_.state(), IBV_MIG_MIGRATED);
}

TEST_F(PathMigrationTest, APeerThatHasYetToFollowArmsNobody) {
  Arm();
  a_.Migrate();
  a_.Rearm();
  EXPECT_EQ(a_.OnPeer(b_.word()), Peer::kNothing);
  EXPECT_EQ(a_.state(), IBV_MIG_REARM);
  EXPECT_EQ(b_.OnPeer(a_.word()), Peer::kHasMigrated) << "re-armed or not";
}

TEST_F(PathMigrationTest, APeerThatWasArmedFirstMayMigrateFirst) {
  a_.Rearm();
  b_.Rearm();
  EXPECT_EQ(b_.OnPeer(a_.word()), Peer::kNothing);
  b_.Migrate();
  EXPECT_EQ(a_.state(), IBV_MIG_REARM);
  EXPECT_EQ(a_.OnPeer(b_.word()), Peer::kHasMigrated);
}

TEST_F(PathMigrationTest, WorksAgainAndAgain) {
  for (int i = 0; i < 3; ++i) {
    Arm();
    b_.Migrate();
    EXPECT_EQ(a_.OnPeer(b_.word()), Peer::kHasMigrated);
    a_.Migrate();
  }
}

TEST_F(PathMigrationTest, APeerCannotMigrateAlone) {
  PathMigration early;
  early.Migrate();
  EXPECT_EQ(a_.OnPeer(early.word()), Peer::kGarbage) << "nobody was armed";
  Arm();
  EXPECT_EQ(a_.OnPeer(b_.word() + 4), Peer::kGarbage);
  EXPECT_EQ(a_.OnPeer(b_.word() - 4), Peer::kGarbage);
}

TEST_F(PathMigrationTest, TheUserAsksForWhatTheSpecificationLetsHim) {
  EXPECT_TRUE(a_.MayEnter(IBV_MIG_MIGRATED)) << "where it is already";
  EXPECT_TRUE(a_.MayEnter(IBV_MIG_REARM));
  EXPECT_FALSE(a_.MayEnter(IBV_MIG_ARMED));
  a_.Rearm();
  EXPECT_FALSE(a_.MayEnter(IBV_MIG_MIGRATED)) << "it is not armed yet";
  EXPECT_TRUE(a_.MayEnter(IBV_MIG_REARM));
}

}  // namespace
}  // namespace verbena::soft
