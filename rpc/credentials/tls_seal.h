// The keys of a connection, and what seals with them.

#ifndef VERBENA_RPC_CREDENTIALS_TLS_SEAL_H_
#define VERBENA_RPC_CREDENTIALS_TLS_SEAL_H_

#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "transport/base/seal.h"

namespace verbena::internal {

// The cipher of both directions.
enum class SealCipher : uint8_t { kAes256Gcm, kChaCha20Poly1305 };

// A secret from which the keys of one direction and purpose are derived.
using SealSecret = std::array<uint8_t, 32>;
// The secrets of one direction.
struct SealSecrets {
  SealSecret frames;
  SealSecret chunks;
};

// Seals or opens for one direction and purpose. Each key is used for
// kNumbersPerKey numbers, and has the number of those in its derivation. Not
// thread-safe.
class SealKeys {
 public:
  // With chunks, 256 GiB: below the 2^24.5 records of 16 KiB that
  // RFC 8446, section 5.5, allows a key of AES-GCM.
  static constexpr uint64_t kNumbersPerKey = uint64_t{1} << 20;

  // `seals`: else it opens.
  SealKeys(SealCipher cipher, const SealSecret& secret, bool seals)
      : cipher_(cipher), secret_(secret), seals_(seals) {}
  SealKeys(const SealKeys&) = delete;
  SealKeys& operator=(const SealKeys&) = delete;
  ~SealKeys();

  // Encrypts `plain` to `sealed`, maybe the same memory, and writes the tag.
  void Seal(uint64_t number, absl::Span<const uint8_t> plain, uint8_t* sealed,
            uint8_t* tag);
  // Decrypts in place; false if the bytes or the tag are not those of `number`.
  [[nodiscard]] bool Open(uint64_t number, absl::Span<uint8_t> bytes,
                          const uint8_t* tag);

 private:
  static constexpr size_t kNonceBytes = 12;
  using Nonce = std::array<uint8_t, kNonceBytes>;
  struct FreeContext {
    void operator()(EVP_CIPHER_CTX* context) const {
      EVP_CIPHER_CTX_free(context);
    }
  };
  struct Key {
    uint64_t epoch = UINT64_MAX;
    Nonce iv = {};
    std::unique_ptr<EVP_CIPHER_CTX, FreeContext> context;
  };

  // Returns the key for `number`, and the nonce of that number.
  EVP_CIPHER_CTX* Prepare(uint64_t number, Nonce* nonce) {
    const uint64_t epoch = number / kNumbersPerKey;
    Key& key = keys_[epoch % keys_.size()];
    if (key.epoch != epoch) Derive(epoch, &key);
    *nonce = key.iv;
    for (size_t i = 0; i < sizeof(number); ++i) {
      (*nonce)[kNonceBytes - 1 - i] ^= static_cast<uint8_t>(number >> (8 * i));
    }
    return key.context.get();
  }
  void Derive(uint64_t epoch, Key* key) const;

  const SealCipher cipher_;
  SealSecret secret_;
  const bool seals_;
  // Parts are sealed in turns, so numbers of two epochs may alternate.
  std::array<Key, 2> keys_;
};

// Seals all that this side sends.
class TlsSealer final : public transport::Sealer {
 public:
  TlsSealer(SealCipher cipher, const SealSecrets& secrets)
      : frames_(cipher, secrets.frames, /*seals=*/true),
        chunks_(cipher, secrets.chunks, /*seals=*/true) {}
  void SealFrame(uint64_t number, absl::Span<uint8_t> frame) override {
    frames_.Seal(number, frame, frame.data(), frame.data() + frame.size());
  }
  void SealChunk(uint64_t number, absl::Span<const uint8_t> plain,
                 uint8_t* sealed, uint8_t* tag) override {
    chunks_.Seal(number, plain, sealed, tag);
  }

 private:
  SealKeys frames_;
  SealKeys chunks_;
};

// Opens all that the peer sends.
class TlsOpener final : public transport::Opener {
 public:
  TlsOpener(SealCipher cipher, const SealSecrets& secrets)
      : frames_(cipher, secrets.frames, /*seals=*/false),
        chunks_(cipher, secrets.chunks, /*seals=*/false) {}
  bool OpenFrame(uint64_t number, absl::Span<uint8_t> frame) override {
    return frames_.Open(number, frame, frame.data() + frame.size());
  }
  bool OpenChunk(uint64_t number, absl::Span<uint8_t> chunk,
                 const uint8_t* tag) override {
    return chunks_.Open(number, chunk, tag);
  }

 private:
  SealKeys frames_;
  SealKeys chunks_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_CREDENTIALS_TLS_SEAL_H_
