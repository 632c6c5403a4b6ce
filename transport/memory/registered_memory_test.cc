#include "transport/memory/registered_memory.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <utility>

#include "absl/status/status.h"
#include "transport/memory/fake_registrar.h"

namespace verbena::transport {
namespace {

TEST(RegisteredMemoryTest, IsWhatTheDeviceWasTold) {
  FakeRegistrar device;
  {
    const absl::StatusOr<RegisteredMemory> memory = RegisteredMemory::Create(
        device.pd(), 8192, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_EQ(memory->size(), 8192u);
    EXPECT_EQ(memory->span().size(), 8192u);
    EXPECT_NE(memory->data(), nullptr);
    EXPECT_EQ(memory->rkey(), memory->lkey() + 0x10000);
    EXPECT_EQ(device.live(), 1);
    EXPECT_EQ(device.last_access(),
              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  }
  EXPECT_EQ(device.live(), 0);
}

TEST(RegisteredMemoryTest, IsDeregisteredBeforeItIsUnmapped) {
  // The fake device refuses to deregister memory that is not mapped, and that
  // would abort.
  FakeRegistrar device;
  RegisteredMemory memory = *RegisteredMemory::Create(device.pd(), 4096, 0);
  memory = *RegisteredMemory::Create(device.pd(), 8192, 0);
  EXPECT_EQ(device.live(), 1);
  EXPECT_EQ(memory.size(), 8192u);
  memory = RegisteredMemory();
  EXPECT_EQ(device.live(), 0);
}

TEST(RegisteredMemoryTest, KeepsAddressAndKeysWhenItMoves) {
  FakeRegistrar device;
  RegisteredMemory from = *RegisteredMemory::Create(device.pd(), 4096, 0);
  uint8_t* const address = from.data();
  const uint32_t lkey = from.lkey();
  const RegisteredMemory to(std::move(from));
  EXPECT_EQ(to.data(), address);
  EXPECT_EQ(to.lkey(), lkey);
  EXPECT_EQ(device.live(), 1);
}

TEST(RegisteredMemoryTest, PassesOnTheFailureOfTheDevice) {
  FakeRegistrar device;
  device.set_bytes_max(4096);
  const absl::Status status =
      RegisteredMemory::Create(device.pd(), 8192, 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("8192"), absl::string_view::npos) << status;
  EXPECT_EQ(device.live(), 0);
}

TEST(RegisteredMemoryTest, RefusesZeroBytes) {
  FakeRegistrar device;
  EXPECT_EQ(RegisteredMemory::Create(device.pd(), 0, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace verbena::transport
