#include "transport/soft/preload/address_info.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cerrno>
#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace verbena::soft {
namespace {

using Info = std::unique_ptr<rdma_addrinfo, decltype(&FreeAddressInfo)>;

Info Find(const char* node, const char* service, const rdma_addrinfo* hints) {
  rdma_addrinfo* found = nullptr;
  EXPECT_EQ(GetAddressInfo(node, service, hints, &found), 0);
  return Info(found, FreeAddressInfo);
}

std::string Text(const sockaddr* address) {
  const auto& in = reinterpret_cast<const sockaddr_in&>(*address);
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &in.sin_addr, text, sizeof(text));
  return std::string(text) + ":" + std::to_string(ntohs(in.sin_port));
}

TEST(AddressInfo, OneWhoConnectsGetsADestination) {
  rdma_addrinfo hints = {};
  hints.ai_port_space = RDMA_PS_TCP;
  const Info info = Find("127.0.0.1", "7471", &hints);
  EXPECT_EQ(Text(info->ai_dst_addr), "127.0.0.1:7471");
  EXPECT_EQ(info->ai_dst_len, sizeof(sockaddr_in));
  EXPECT_EQ(info->ai_src_addr, nullptr);
  EXPECT_EQ(info->ai_qp_type, IBV_QPT_RC);
}

TEST(AddressInfo, OneWhoListensGetsASource) {
  rdma_addrinfo hints = {};
  hints.ai_flags = RAI_PASSIVE;
  hints.ai_family = AF_INET;
  const Info info = Find(nullptr, "7471", &hints);
  EXPECT_EQ(Text(info->ai_src_addr), "0.0.0.0:7471");
  EXPECT_EQ(info->ai_dst_addr, nullptr);
  EXPECT_EQ(info->ai_port_space, RDMA_PS_TCP);
}

TEST(AddressInfo, DatagramsHaveQueuePairsOfTheirOwnKind) {
  rdma_addrinfo hints = {};
  hints.ai_port_space = RDMA_PS_UDP;
  const Info info = Find("127.0.0.1", "1", &hints);
  EXPECT_EQ(info->ai_qp_type, IBV_QPT_UD);
  EXPECT_EQ(info->ai_port_space, RDMA_PS_UDP);
}

TEST(AddressInfo, TheSourceOfTheHintsIsKept) {
  sockaddr_in source = {};
  source.sin_family = AF_INET;
  source.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  rdma_addrinfo hints = {};
  hints.ai_src_addr = reinterpret_cast<sockaddr*>(&source);
  hints.ai_src_len = sizeof(source);
  const Info info = Find("127.0.0.2", "9", &hints);
  EXPECT_EQ(Text(info->ai_src_addr), "127.0.0.1:0");
  EXPECT_EQ(Text(info->ai_dst_addr), "127.0.0.2:9");
  EXPECT_NE(info->ai_src_addr, hints.ai_src_addr);
}

TEST(AddressInfo, ANameThatIsNoNumberIsRefusedWhenNumbersAreWanted) {
  rdma_addrinfo hints = {};
  hints.ai_flags = RAI_NUMERICHOST;
  rdma_addrinfo* found = nullptr;
  EXPECT_EQ(GetAddressInfo("somewhere", "1", &hints, &found), EAI_NONAME);
}

TEST(AddressInfo, NothingToLookForIsRefused) {
  rdma_addrinfo* found = nullptr;
  EXPECT_EQ(GetAddressInfo(nullptr, nullptr, nullptr, &found), -1);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace verbena::soft
