#include "rpc/credentials/tls_seal.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace verbena::internal {
namespace {

constexpr size_t kTag = transport::kSealTagBytes;

SealSecret Secret(char letter) {
  SealSecret secret;
  secret.fill(static_cast<uint8_t>(letter));
  return secret;
}

// A frame with room for its tag.
std::vector<uint8_t> Frame(const std::string& text) {
  std::vector<uint8_t> frame(text.begin(), text.end());
  frame.resize(text.size() + kTag);
  return frame;
}
absl::Span<uint8_t> WithoutTag(std::vector<uint8_t>& frame) {
  return absl::MakeSpan(frame).first(frame.size() - kTag);
}
std::string TextOf(std::vector<uint8_t>& frame) {
  const absl::Span<uint8_t> text = WithoutTag(frame);
  return {text.begin(), text.end()};
}

class TlsSealTest : public testing::TestWithParam<SealCipher> {
 protected:
  std::vector<uint8_t> Sealed(uint64_t number, const std::string& text) {
    std::vector<uint8_t> frame = Frame(text);
    sealer_.SealFrame(number, WithoutTag(frame));
    return frame;
  }
  bool Opens(uint64_t number, std::vector<uint8_t> frame,
             const std::string& text) {
    return opener_.OpenFrame(number, WithoutTag(frame)) &&
           TextOf(frame) == text;
  }

  const SealSecrets secrets_ = {.frames = Secret('f'), .chunks = Secret('c')};
  TlsSealer sealer_{GetParam(), secrets_};
  TlsOpener opener_{GetParam(), secrets_};
};

INSTANTIATE_TEST_SUITE_P(Ciphers, TlsSealTest,
                         testing::Values(SealCipher::kAes256Gcm,
                                         SealCipher::kChaCha20Poly1305));

TEST_P(TlsSealTest, WhatWasSealedOpens) {
  for (uint64_t number = 0; number < 100; ++number) {
    const std::string text(number * 7, 'x');
    EXPECT_TRUE(Opens(number, Sealed(number, text), text)) << number;
  }
}

TEST_P(TlsSealTest, NothingOfTheTextCanBeSeen) {
  std::vector<uint8_t> frame = Sealed(0, std::string(64, 'x'));
  EXPECT_EQ(TextOf(frame).find("xx"), std::string::npos);
  EXPECT_NE(Sealed(1, std::string(64, 'x')), frame);
}

TEST_P(TlsSealTest, ABitThatWasChangedIsNoticed) {
  const std::vector<uint8_t> frame = Sealed(5, "a frame");
  for (size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    std::vector<uint8_t> changed = frame;
    changed[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    EXPECT_FALSE(Opens(5, changed, "a frame")) << bit;
  }
  EXPECT_TRUE(Opens(5, frame, "a frame"));
}

TEST_P(TlsSealTest, AnotherNumberDoesNotOpenIt) {
  const std::vector<uint8_t> frame = Sealed(5, "a frame");
  for (const uint64_t number :
       {uint64_t{4}, uint64_t{6}, uint64_t{5} + SealKeys::kNumbersPerKey,
        (uint64_t{5} << 32)}) {
    EXPECT_FALSE(Opens(number, frame, "a frame")) << number;
  }
}

TEST_P(TlsSealTest, AFrameDoesNotOpenAsAChunk) {
  std::vector<uint8_t> frame = Sealed(5, "a frame");
  EXPECT_FALSE(opener_.OpenChunk(5, WithoutTag(frame),
                                 frame.data() + frame.size() - kTag));
}

// Numbers of two keys alternate where parts are sealed in turns.
TEST_P(TlsSealTest, KeysChangeAndThoseBeforeStayForAWhile) {
  const uint64_t next = SealKeys::kNumbersPerKey;
  const std::vector<uint8_t> last = Sealed(next - 1, "the last");
  const std::vector<uint8_t> first = Sealed(next, "the first");
  EXPECT_TRUE(Opens(next, first, "the first"));
  EXPECT_TRUE(Opens(next - 1, last, "the last"));
  EXPECT_TRUE(Opens(next, first, "the first"));
  // With one key, the same number modulo the keys would open it.
  EXPECT_FALSE(Opens(0, first, "the first"));
}

TEST_P(TlsSealTest, AChunkIsSealedFromOnePlaceToAnother) {
  const std::vector<uint8_t> plain(transport::kSealChunkBytes, 'x');
  std::vector<uint8_t> sealed(plain.size());
  std::vector<uint8_t> tag(kTag);
  sealer_.SealChunk(9, plain, sealed.data(), tag.data());
  EXPECT_NE(sealed, plain);
  std::vector<uint8_t> copy = sealed;
  EXPECT_FALSE(opener_.OpenChunk(8, absl::MakeSpan(copy), tag.data()));
  EXPECT_TRUE(opener_.OpenChunk(9, absl::MakeSpan(sealed), tag.data()));
  EXPECT_EQ(sealed, plain);
}

// RFC 8439 and the GCM specification have no vectors for keys derived so: this
// one says when the derivation changes, which older peers could not follow.
TEST(TlsSealKeysTest, TheDerivationOfKeysStaysWhatItIs) {
  SealKeys keys(SealCipher::kAes256Gcm, Secret('s'), /*seals=*/true);
  std::vector<uint8_t> frame = Frame("0123456789");
  keys.Seal(1, WithoutTag(frame), frame.data(), frame.data() + 10);
  std::string hex;
  for (const uint8_t byte : frame) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  EXPECT_EQ(hex, "fe146cb24773e6c340154ccc30035b0e96df42d03849e44ae00d");
}

}  // namespace
}  // namespace verbena::internal
