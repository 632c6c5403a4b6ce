// Which service configs Verbena takes, and which gRPC C++ does.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/internal/service/balancers.h"
#include "rpc/internal/service/service_config.h"
#include "tests/differential/config_documents.h"
#include "tests/differential/differences.h"
#include "tests/differential/draw.h"
#include "tests/differential/peer.h"

namespace verbena::differential {
namespace {

// As GrpcsOpinionOf().
std::string VerbenasOpinionOf(const std::string& config) {
  const auto parsed = internal::ServiceConfig::Parse(config);
  if (!parsed.ok()) return std::string(parsed.status().message());
  // gRPC looks for a policy that it knows while it parses.
  return std::string(
      internal::ChoosePolicy((*parsed)->policies(), {.others = {}, .seed = 1})
          .status()
          .message());
}

class ConfigDifferentialTest : public testing::Test {
 protected:
  ConfigDifferentialTest() { SilenceGrpc(); }

  // Both are empty if both take it.
  struct Opinions {
    std::string grpc;
    std::string verbena;

    bool differ() const { return grpc.empty() != verbena.empty(); }
    Taker taker() const {
      return grpc.empty() ? Taker::kGrpc : Taker::kVerbena;
    }
    std::string ToString() const {
      return "gRPC: '" + grpc + "', Verbena: '" + verbena + "'";
    }
  };
  static Opinions Ask(const std::string& document) {
    return {.grpc = GrpcsOpinionOf(document),
            .verbena = VerbenasOpinionOf(document)};
  }

  // gRPC reads "loadBalancingPolicy" also where "loadBalancingConfig" holds.
  static std::string Changed(std::map<size_t, std::string> changes) {
    constexpr size_t kLoadBalancingConfig = 0;
    constexpr size_t kLoadBalancingPolicy = 1;
    if (changes.contains(kLoadBalancingPolicy)) {
      changes[kLoadBalancingConfig] = "";
    }
    return Document(changes);
  }
};

TEST_F(ConfigDifferentialTest, BothTakeWhatIsRight) {
  EXPECT_EQ(GrpcsOpinionOf(Document({})), "");
  EXPECT_EQ(VerbenasOpinionOf(Document({})), "");
}

TEST_F(ConfigDifferentialTest, EachValueOfEachField) {
  for (size_t i = 0; i < Fields().size(); ++i) {
    for (const std::string& value : Values()) {
      const std::string document = Changed({{i, value}});
      const Opinions opinions = Ask(document);
      const ConfigDifference* const known =
          FindConfigDifference(Fields()[i].path, value);
      EXPECT_EQ(opinions.differ(), known != nullptr)
          << Fields()[i].path << ": " << value << "\n"
          << opinions.ToString();
      if (opinions.differ() && known != nullptr) {
        EXPECT_EQ(opinions.taker(), known->taker) << opinions.ToString();
      }
    }
  }
}

TEST_F(ConfigDifferentialTest, SeveralWrongFields) {
  constexpr uint64_t kDocuments = 2000;
  uint64_t taken = 0;
  for (uint64_t seed = 0; seed < kDocuments; ++seed) {
    Draw draw(seed);
    std::map<size_t, std::string> changes;
    for (int count = draw.From(1, 4); count > 0; --count) {
      const size_t field = draw.Number(Fields().size());
      const std::string& value = Values()[draw.Number(Values().size())];
      if (FindConfigDifference(Fields()[field].path, value) != nullptr)
        continue;
      // Mostly right values, of which there are few.
      if (!VerbenasOpinionOf(Changed({{field, value}})).empty() &&
          !draw.OneIn(8)) {
        continue;
      }
      changes[field] = value;
    }
    const std::string document = Changed(changes);
    const Opinions opinions = Ask(document);
    EXPECT_FALSE(opinions.differ()) << document << "\n" << opinions.ToString();
    if (opinions.grpc.empty()) ++taken;
  }
  // Else nearly all documents would be alike.
  EXPECT_GT(taken, kDocuments / 4);
  EXPECT_LT(taken, kDocuments * 9 / 10);
}

TEST_F(ConfigDifferentialTest, AByteThatIsAnother) {
  constexpr uint64_t kDocuments = 2000;
  constexpr char kBytes[] = "{}[]\",:'0 1.s\\-eE+/*tn\n\t\x01\xff";
  for (uint64_t seed = 0; seed < kDocuments; ++seed) {
    Draw draw(seed);
    std::string document = Document({});
    const size_t position = draw.Number(document.size());
    const char byte = kBytes[draw.Number(std::strlen(kBytes))];
    switch (draw.Number(3)) {
      case 0:
        document.erase(position, 1);
        break;
      case 1:
        document.insert(position, 1, byte);
        break;
      default:
        document[position] = byte;
    }
    const Opinions opinions = Ask(document);
    if (!opinions.differ()) continue;
    bool known = false;
    for (const TextDifference& each : TextDifferences()) {
      known |=
          each.taker == opinions.taker() && each.covers(document, position);
    }
    EXPECT_TRUE(known) << document << "\n" << opinions.ToString();
  }
}

}  // namespace
}  // namespace verbena::differential
