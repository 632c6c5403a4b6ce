#include "rpc/authorization/authorization_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace verbena::internal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using transport::AuthContext;

TEST(TextPatternTest, MatchesExactlyByBeginningByEndOrByPresence) {
  const struct {
    const char* pattern;
    const char* value;
    bool matches;
  } table[] = {
      {"abc", "abc", true},   {"abc", "abcd", false},  {"abc", "xabc", false},
      {"abc", "ABC", false},  {"abc", "", false},      {"", "", true},
      {"", "a", false},       {"abc*", "abc", true},   {"abc*", "abcd", true},
      {"abc*", "ab", false},  {"abc*", "xabc", false}, {"*abc", "abc", true},
      {"*abc", "xabc", true}, {"*abc", "abcx", false}, {"*abc", "bc", false},
      {"*", "a", true},       {"*", "*", true},        {"*", "a\nb", true},
      {"*", "", false},       {"a*c", "a*c", true},    {"a*c", "abc", false},
      {"*b*", "ab*", true},   {"*b*", "abc", false},   {"**", "a*", true},
      {"**", "a", false},     {"*a", "", false},       {"a*", "", false},
  };
  for (const auto& [pattern, value, matches] : table) {
    EXPECT_EQ(TextPattern(pattern).Matches(value), matches)
        << pattern << " and " << value;
  }
}

AuthContext NewPeer(const AuthContext::Properties& properties,
                    const std::string& identity = "") {
  AuthContext peer;
  for (const auto& [name, value] : properties) peer.AddProperty(name, value);
  EXPECT_EQ(peer.SetPeerIdentityPropertyName(identity), !identity.empty());
  return peer;
}

AuthContext Nobody() { return NewPeer({}); }
AuthContext KeyOwner(const std::string& key) {
  return NewPeer(
      {{"transport_security_type", "shared_secret"}, {"key_name", key}},
      "key_name");
}
AuthContext NoCertificate() {
  return NewPeer({{"transport_security_type", "ssl"}});
}
AuthContext Certificate() {
  return NewPeer({{"transport_security_type", "ssl"},
                  {"x509_common_name", "common"},
                  {"x509_subject", "CN=common,O=shop"},
                  {"x509_subject_alternative_name", "spiffe://shop/till"},
                  {"x509_subject_alternative_name", "till@shop.example"},
                  {"peer_uri", "spiffe://shop/till"},
                  {"peer_uri", "spiffe://shop/spare"},
                  {"peer_dns", "till.shop.example"},
                  {"peer_email", "till@shop.example"},
                  {"peer_ip", "10.0.0.7"}},
                 "x509_subject_alternative_name");
}

TEST(PrincipalsTest, AreTheUrisTheDnsNamesAndTheSubjectOfACertificate) {
  EXPECT_THAT(PrincipalsOf(Certificate()),
              ElementsAre("spiffe://shop/till", "spiffe://shop/spare",
                          "till.shop.example", "CN=common,O=shop"));
  AuthContext named = NewPeer({{"transport_security_type", "tls"},
                               {"x509_common_name", "common"},
                               {"x509_subject", "CN=common"}},
                              "x509_common_name");
  EXPECT_THAT(PrincipalsOf(named), ElementsAre("CN=common"));
}

TEST(PrincipalsTest, AreTheSubjectOfACertificateThatHasNoOtherName) {
  // Without an alternative and a common name there is no identity.
  EXPECT_THAT(PrincipalsOf(NewPeer({{"transport_security_type", "ssl"},
                                    {"x509_subject", "O=shop"}})),
              ElementsAre("O=shop"));
}

TEST(PrincipalsTest, AreTheIdentityOfOtherCredentials) {
  EXPECT_THAT(PrincipalsOf(KeyOwner("november")), ElementsAre("november"));
  EXPECT_THAT(PrincipalsOf(NewPeer({{"transport_security_type", "local"},
                                    {"user", "1000"},
                                    {"peer_uri", "spiffe://shop/till"}},
                                   "user")),
              ElementsAre("1000"));
  EXPECT_THAT(PrincipalsOf(NewPeer({{"role", "a"}, {"role", "b"}}, "role")),
              ElementsAre("a", "b"));
  EXPECT_THAT(PrincipalsOf(Nobody()), IsEmpty());
  EXPECT_THAT(PrincipalsOf(NewPeer({{"user", "1000"}})), IsEmpty());
}

TEST(PrincipalsTest, AreWhatAProcessorOfMetadataHasFound) {
  EXPECT_THAT(
      PrincipalsOf(NewPeer(
          {{"transport_security_type", "ssl"}, {"token", "ann"}}, "token")),
      ElementsAre("ann"));
}

// Decisions of one policy for calls of which each test sets a part.
class AuthorizationPolicyTest : public testing::Test {
 protected:
  void Load(const std::string& rules) {
    auto policy = AuthorizationPolicy::Parse(
        absl::StrCat("{\"name\": \"p\", ", rules, "}"));
    ASSERT_TRUE(policy.ok()) << policy.status();
    policy_ = *std::move(policy);
  }
  void LoadRule(const std::string& fields) {
    Load(absl::StrCat(R"("allow_rules": [{"name": "r", )", fields, "}]"));
  }
  void LoadPrincipals(const std::string& list) {
    LoadRule(absl::StrCat(R"("source": {"principals": )", list, "}"));
  }

  // "+rule" if that rule allows the call, "-rule" if it denies it, "-" if no
  // rule matches.
  std::string Decide(const std::string& path,
                     const AuthContext& peer = Nobody(),
                     const Metadata& metadata = {}) {
    const auto decision =
        policy_->Decide({.path = path, .peer = peer, .metadata = metadata});
    return absl::StrCat(decision.allowed ? "+" : "-", decision.rule);
  }
  bool AllowsPeer(const AuthContext& peer) {
    return Decide("/p.S/m", peer) == "+r";
  }
  bool AllowsMetadata(const Metadata& metadata) {
    return Decide("/p.S/m", Nobody(), metadata) == "+r";
  }

 private:
  std::shared_ptr<const AuthorizationPolicy> policy_;
};

TEST_F(AuthorizationPolicyTest, ARuleWithoutListsMatchesEveryCall) {
  for (const char* fields :
       {R"("source": {})", R"("request": {})",
        R"("source": {"principals": []}, "request": {"paths": []})",
        R"("request": {"paths": [], "headers": []})"}) {
    LoadRule(fields);
    EXPECT_EQ(Decide("/p.S/m", Nobody()), "+r") << fields;
    EXPECT_EQ(Decide("/p.S/m", Certificate(), {{"k", "v"}}), "+r") << fields;
  }
}

TEST_F(AuthorizationPolicyTest, OneOfThePathsMustMatch) {
  LoadRule(R"("request": {"paths": ["/p.S/m", "/q.*", "*/open"]})");
  EXPECT_EQ(Decide("/p.S/m"), "+r");
  EXPECT_EQ(Decide("/p.S/n"), "-");
  EXPECT_EQ(Decide("/p.S/mm"), "-");
  EXPECT_EQ(Decide("/P.S/m"), "-");
  EXPECT_EQ(Decide("/q.T/any"), "+r");
  EXPECT_EQ(Decide("/q/any"), "-");
  EXPECT_EQ(Decide("/r.U/open"), "+r");
  LoadRule(R"("request": {"paths": ["*"]})");
  EXPECT_EQ(Decide("/p.S/n"), "+r");
}

TEST_F(AuthorizationPolicyTest, OneOfThePrincipalsMustMatchOneOfTheNames) {
  LoadPrincipals(R"(["nov*", "1000"])");
  EXPECT_TRUE(AllowsPeer(KeyOwner("november")));
  EXPECT_FALSE(AllowsPeer(KeyOwner("october")));
  EXPECT_FALSE(AllowsPeer(Nobody()));
  for (const char* name :
       {"spiffe://shop/till", "spiffe://shop/spare", "spiffe://*",
        "till.shop.example", "*.example", "CN=common,O=shop"}) {
    LoadPrincipals(absl::StrCat("[\"", name, "\"]"));
    EXPECT_TRUE(AllowsPeer(Certificate())) << name;
    EXPECT_FALSE(AllowsPeer(NoCertificate())) << name;
  }
  for (const char* name : {"common", "till@shop.example", "10.0.0.7", "ssl"}) {
    LoadPrincipals(absl::StrCat("[\"", name, "\"]"));
    EXPECT_FALSE(AllowsPeer(Certificate())) << name;
  }
}

TEST_F(AuthorizationPolicyTest, TheEmptyPrincipalIsAPeerWithoutAName) {
  LoadPrincipals(R"([""])");
  EXPECT_TRUE(AllowsPeer(NoCertificate()));
  EXPECT_FALSE(AllowsPeer(Certificate()));
  EXPECT_FALSE(AllowsPeer(KeyOwner("november")));
  EXPECT_FALSE(AllowsPeer(Nobody()));
  LoadPrincipals(R"(["*"])");
  EXPECT_FALSE(AllowsPeer(NoCertificate()));
  EXPECT_TRUE(AllowsPeer(Certificate()));
  EXPECT_TRUE(AllowsPeer(KeyOwner("november")));
  EXPECT_FALSE(AllowsPeer(Nobody()));
  LoadPrincipals(R"(["*", ""])");
  EXPECT_TRUE(AllowsPeer(NoCertificate()));
  EXPECT_TRUE(AllowsPeer(Certificate()));
  EXPECT_FALSE(AllowsPeer(Nobody()));
}

TEST_F(AuthorizationPolicyTest, EachOfTheHeadersMustMatchOneOfItsValues) {
  LoadRule(R"("request": {"headers": [
      {"key": "Tier", "values": ["gold", "silver"]},
      {"key": "dev-path", "values": ["/dev/*"]}]})");
  EXPECT_TRUE(AllowsMetadata({{"tier", "gold"}, {"dev-path", "/dev/x"}}));
  EXPECT_TRUE(AllowsMetadata({{"dev-path", "/dev/"}, {"tier", "silver"}}));
  EXPECT_FALSE(AllowsMetadata({{"tier", "tin"}, {"dev-path", "/dev/x"}}));
  EXPECT_FALSE(AllowsMetadata({{"tier", "gold"}, {"dev-path", "/usr"}}));
  EXPECT_FALSE(AllowsMetadata({{"tier", "gold"}}));
  EXPECT_FALSE(AllowsMetadata({}));
}

TEST_F(AuthorizationPolicyTest, ValuesOfOneKeyAreOneValueWithCommas) {
  LoadRule(R"("request": {"headers": [{"key": "k", "values": ["a,b"]}]})");
  EXPECT_TRUE(AllowsMetadata({{"k", "a"}, {"k", "b"}}));
  EXPECT_FALSE(AllowsMetadata({{"k", "b"}, {"k", "a"}}));
  EXPECT_FALSE(AllowsMetadata({{"k", "a"}}));
  EXPECT_FALSE(AllowsMetadata({{"k", "b"}}));
}

TEST_F(AuthorizationPolicyTest, AHeaderMustBeThereEvenIfItMayBeEmpty) {
  LoadRule(R"("request": {"headers": [{"key": "k", "values": [""]}]})");
  EXPECT_TRUE(AllowsMetadata({{"k", ""}}));
  EXPECT_FALSE(AllowsMetadata({}));
  LoadRule(R"("request": {"headers": [{"key": "k", "values": ["*"]}]})");
  EXPECT_TRUE(AllowsMetadata({{"k", "v"}}));
  EXPECT_FALSE(AllowsMetadata({{"k", ""}}));
}

TEST_F(AuthorizationPolicyTest, PathsHeadersAndPrincipalsMustAllMatch) {
  LoadRule(R"("source": {"principals": ["november"]},
              "request": {"paths": ["/p.S/m"],
                          "headers": [{"key": "k", "values": ["v"]}]})");
  const Metadata metadata = {{"k", "v"}};
  EXPECT_EQ(Decide("/p.S/m", KeyOwner("november"), metadata), "+r");
  EXPECT_EQ(Decide("/p.S/n", KeyOwner("november"), metadata), "-");
  EXPECT_EQ(Decide("/p.S/m", KeyOwner("october"), metadata), "-");
  EXPECT_EQ(Decide("/p.S/m", KeyOwner("november")), "-");
}

TEST_F(AuthorizationPolicyTest, DenyRulesComeFirst) {
  Load(R"("allow_rules": [{"name": "everything"}],
          "deny_rules": [
            {"name": "no secrets", "request": {"paths": ["*/secret"]}},
            {"name": "no october", "source": {"principals": ["october"]}}])");
  EXPECT_EQ(Decide("/p.S/m", KeyOwner("november")), "+everything");
  EXPECT_EQ(Decide("/p.S/m", Nobody()), "+everything");
  EXPECT_EQ(Decide("/p.S/secret", KeyOwner("november")), "-no secrets");
  EXPECT_EQ(Decide("/p.S/m", KeyOwner("october")), "-no october");
}

TEST_F(AuthorizationPolicyTest, TheFirstRuleThatMatchesIsNamed) {
  Load(R"("allow_rules": [
      {"name": "one", "request": {"paths": ["/p.S/m"]}},
      {"name": "two", "request": {"paths": ["/p.*"]}},
      {"name": "three", "request": {"paths": ["/p.S/*"]}}])");
  EXPECT_EQ(Decide("/p.S/m"), "+one");
  EXPECT_EQ(Decide("/p.S/n"), "+two");
  EXPECT_EQ(Decide("/q.S/n"), "-");
}

// The example of the proposal, but for a slash that its header lacks there.
TEST_F(AuthorizationPolicyTest, DoesWhatTheProposalSaysOfItsExample) {
  Load(R"("allow_rules": [
      {"name": "admin-access",
       "source": {"principals": ["spiffe://foo.com/sa/admin1",
                                 "spiffe://foo.com/sa/admin2"]},
       "request": {"paths": ["/pkg.service/*"]}},
      {"name": "dev-access",
       "source": {"principals": ["*", ""]},
       "request": {"paths": ["/pkg.service/foo", "/pkg.service/bar"],
                   "headers": [{"key": "dev-path",
                                "values": ["/dev/path/*"]}]}}],
      "deny_rules": [
      {"name": "deny-access", "request": {"paths": ["*/secret"]}}])");
  const auto admin = [](const char* uri) {
    return NewPeer({{"transport_security_type", "ssl"}, {"peer_uri", uri}},
                   "peer_uri");
  };
  const Metadata dev = {{"dev-path", "/dev/path/x"}};
  EXPECT_EQ(Decide("/pkg.service/any", admin("spiffe://foo.com/sa/admin1")),
            "+admin-access");
  EXPECT_EQ(Decide("/pkg.service/any", admin("spiffe://foo.com/sa/admin2")),
            "+admin-access");
  EXPECT_EQ(Decide("/pkg.service/any", admin("spiffe://foo.com/sa/admin3")),
            "-");
  EXPECT_EQ(Decide("/pkg.service/foo", NoCertificate(), dev), "+dev-access");
  EXPECT_EQ(Decide("/pkg.service/bar", Certificate(), dev), "+dev-access");
  EXPECT_EQ(Decide("/pkg.service/bar", Certificate()), "-");
  EXPECT_EQ(Decide("/pkg.service/any", Certificate(), dev), "-");
  EXPECT_EQ(Decide("/pkg.service/foo", Nobody(), dev), "-");
  EXPECT_EQ(Decide("/pkg.service/secret", admin("spiffe://foo.com/sa/admin1")),
            "-deny-access");
}

}  // namespace
}  // namespace verbena::internal
