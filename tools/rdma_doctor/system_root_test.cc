#include "tools/rdma_doctor/system_root.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/rdma_doctor/fake_machine.h"

namespace verbena::doctor {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SystemRootTest, ReadsFilesWithoutTheirLastNewLine) {
  FakeMachine machine;
  machine.Write("/sys/a", " 7 \n");
  machine.Write("/sys/b", "-3\n");
  machine.Write("/sys/empty", "");
  const SystemRoot root = machine.root();
  EXPECT_EQ(root.Read("/sys/a"), " 7");
  EXPECT_EQ(root.ReadNumber("/sys/a"), 7);
  EXPECT_EQ(root.ReadNumber("/sys/b"), -3);
  EXPECT_EQ(root.Read("/sys/empty"), "");
  EXPECT_EQ(root.ReadNumber("/sys/empty"), std::nullopt);
}

TEST(SystemRootTest, HasNothingOfWhatIsNotThere) {
  FakeMachine machine;
  machine.MakeFolder("/sys/folder");
  const SystemRoot root = machine.root();
  EXPECT_EQ(root.Read("/sys/none"), std::nullopt);
  EXPECT_EQ(root.Read("/sys/folder"), std::nullopt);
  EXPECT_EQ(root.LinkName("/sys/folder"), "");
  EXPECT_THAT(root.List("/sys/none"), IsEmpty());
  EXPECT_FALSE(root.Exists("/sys/none"));
  EXPECT_FALSE(root.MayOpen("/sys/none"));
}

TEST(SystemRootTest, ListsNumbersByTheirValue) {
  FakeMachine machine;
  for (const char* name : {"10", "9", "100"}) {
    machine.Write(std::string("/gids/") + name, "");
  }
  EXPECT_THAT(machine.root().List("/gids"), ElementsAre("9", "10", "100"));
}

TEST(SystemRootTest, FollowsLinks) {
  FakeMachine machine;
  machine.MakeFolder("/sys");
  std::filesystem::create_symlink("../drivers/mlx5_core",
                                  machine.folder() + "/sys/driver");
  EXPECT_EQ(machine.root().LinkName("/sys/driver"), "mlx5_core");
}

TEST(SystemRootTest, KnowsTheEnvironment) {
  FakeMachine machine;
  machine.Write("/proc/self/environ", std::string("A=1\0AB=2=3\0C=\0", 14));
  const SystemRoot root = machine.root();
  EXPECT_EQ(root.Environment("A"), "1");
  EXPECT_EQ(root.Environment("AB"), "2=3");
  EXPECT_EQ(root.Environment("C"), "");
  EXPECT_EQ(root.Environment("B"), std::nullopt);
}

TEST(SystemRootTest, WithoutAFolderIsThisMachine) {
  EXPECT_TRUE(SystemRoot().is_this_machine());
  EXPECT_TRUE(SystemRoot().Exists("/proc/self/status"));
  EXPECT_FALSE(FakeMachine().root().is_this_machine());
}

}  // namespace
}  // namespace verbena::doctor
