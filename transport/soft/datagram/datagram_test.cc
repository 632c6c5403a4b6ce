#include "transport/soft/datagram/datagram.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace verbena::soft {
namespace {

std::vector<std::byte> Bytes(const DatagramHeader& header, size_t payload) {
  std::vector<std::byte> bytes(sizeof(header) + payload);
  const DatagramHeader wire = ToWire(header);
  std::memcpy(bytes.data(), &wire, sizeof(wire));
  return bytes;
}

bool Reads(const std::vector<std::byte>& bytes) {
  DatagramHeader header;
  return ReadDatagramHeader(bytes.data(), bytes.size(), header);
}

TEST(DatagramTest, WhatIsWrittenIsRead) {
  DatagramHeader sent;
  sent.destination_qp = 0x123456;
  sent.source_qp = 0xabcdef;
  sent.qkey = 0x11111111;
  sent.flow_label = 0xfffff;
  sent.immediate = 7;
  sent.flags = kDatagramImmediate;
  sent.source.raw[15] = 1;
  const std::vector<std::byte> bytes = Bytes(sent, 5);
  DatagramHeader read;
  ASSERT_TRUE(ReadDatagramHeader(bytes.data(), bytes.size(), read));
  EXPECT_EQ(std::memcmp(&sent, &read, sizeof(read)), 0);
}

TEST(DatagramTest, NumbersTravelInNetworkByteOrder) {
  DatagramHeader header;
  header.destination_qp = 0x010203;
  const std::vector<std::byte> bytes = Bytes(header, 0);
  const size_t at = offsetof(DatagramHeader, destination_qp);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(bytes[at + i], std::byte(i));
}

TEST(DatagramTest, AMessageMayBeEmptyAndAsLongAsThePathCarries) {
  EXPECT_TRUE(Reads(Bytes({}, 0)));
  EXPECT_TRUE(Reads(Bytes({}, kDatagramPayloadMax)));
  EXPECT_FALSE(Reads(Bytes({}, kDatagramPayloadMax + 1)));
}

TEST(DatagramTest, GarbageIsNoDatagram) {
  std::vector<std::byte> bytes = Bytes({}, 10);
  for (size_t length = 0; length < sizeof(DatagramHeader); ++length) {
    DatagramHeader header;
    EXPECT_FALSE(ReadDatagramHeader(bytes.data(), length, header));
  }
  for (const size_t i : {0, 3, 4}) {  // The magic, and the version.
    std::vector<std::byte> other = bytes;
    other[i] ^= std::byte{1};
    EXPECT_FALSE(Reads(other)) << i;
  }
}

TEST(DatagramTest, QueuePairNumbersHave24Bits) {
  DatagramHeader header;
  header.destination_qp = 1 << 24;
  EXPECT_FALSE(Reads(Bytes(header, 0)));
  header = {};
  header.source_qp = 1 << 24;
  EXPECT_FALSE(Reads(Bytes(header, 0)));
}

}  // namespace
}  // namespace verbena::soft
