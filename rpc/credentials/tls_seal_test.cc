#include "rpc/credentials/tls_seal.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"

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

// --- A man in the middle -----------------------------------------------------

// The frames of one direction, which somebody may alter, drop, repeat, swap or
// exchange for those of another connection before they are opened.
class Middle {
 public:
  explicit Middle(uint64_t seed) : random_(seed) {}

  // Returns whether the receiver has accepted anything that was not sent, in
  // the place where it was sent.
  bool Deceives(TlsSealer& sealer, TlsSealer& other, TlsOpener& opener) {
    constexpr int kFrames = 8;
    std::vector<std::string> sent;
    std::vector<std::string> wire;
    std::vector<std::string> strange;
    for (int i = 0; i < kFrames; ++i) {
      sent.push_back(std::string(16 + Draw(200), static_cast<char>('a' + i)));
      wire.push_back(Sealed(sealer, base_ + i, sent.back()));
      strange.push_back(Sealed(other, base_ + i, sent.back()));
    }
    Attack(&wire, strange);
    bool deceived = false;
    for (size_t i = 0; i < wire.size(); ++i) {
      std::string frame = wire[i];
      if (frame.size() < kTag) break;
      const absl::Span<uint8_t> text(reinterpret_cast<uint8_t*>(frame.data()),
                                     frame.size() - kTag);
      // The first frame that does not open ends the connection.
      if (!opener.OpenFrame(base_ + i, text)) break;
      deceived = deceived || i >= sent.size() ||
                 frame.substr(0, text.size()) != sent[i];
    }
    base_ += kFrames;
    return deceived;
  }

 private:
  uint64_t Draw(uint64_t most) { return random_() % most; }

  static std::string Sealed(TlsSealer& sealer, uint64_t number,
                            std::string text) {
    const size_t bytes = text.size();
    text.resize(bytes + kTag);
    sealer.SealFrame(number, {reinterpret_cast<uint8_t*>(text.data()), bytes});
    return text;
  }

  void Attack(std::vector<std::string>* wire,
              const std::vector<std::string>& strange) {
    const size_t at = Draw(wire->size());
    const size_t with = Draw(wire->size());
    std::string& frame = (*wire)[at];
    switch (Draw(7)) {
      case 0:
        frame[Draw(frame.size())] ^= static_cast<char>(1 << Draw(8));
        return;
      case 1:
        wire->erase(wire->begin() + static_cast<ptrdiff_t>(at));
        return;
      case 2:
        wire->insert(wire->begin() + static_cast<ptrdiff_t>(at), frame);
        return;
      case 3:
        std::swap(frame, (*wire)[with]);
        return;
      case 4:
        frame.resize(Draw(frame.size()));
        return;
      case 5:
        frame = strange[with];
        return;
      default:
        frame = old_.empty() ? strange[at] : old_;
        old_ = (*wire)[with];
    }
  }

  std::mt19937_64 random_;
  uint64_t base_ = 0;
  std::string old_;  // A frame of before.
};

// VERBENA_TEST_CASES: how many.
TEST(TlsSealAttackTest, AManInTheMiddleDeceivesNobody) {
  uint64_t cases = 20000;
  if (const char* const wanted = std::getenv("VERBENA_TEST_CASES")) {
    ASSERT_TRUE(absl::SimpleAtoi(wanted, &cases));
  }
  const SealSecrets one = {.frames = Secret('1'), .chunks = Secret('c')};
  const SealSecrets two = {.frames = Secret('2'), .chunks = Secret('c')};
  TlsSealer sealer(SealCipher::kAes256Gcm, one);
  TlsSealer other(SealCipher::kAes256Gcm, two);
  TlsOpener opener(SealCipher::kAes256Gcm, one);
  Middle middle(std::random_device{}());
  for (uint64_t i = 0; i < cases; ++i) {
    ASSERT_FALSE(middle.Deceives(sealer, other, opener)) << i;
  }
}

}  // namespace
}  // namespace verbena::internal
