#include "rpc/credentials/tls_seal.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"

namespace verbena::internal {
namespace {

// HKDF-Expand of RFC 5869 with SHA-256. Fails only for want of memory.
void Expand(const SealSecret& secret, std::string info,
            absl::Span<uint8_t> out) {
  EVP_KDF* const hkdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  EVP_KDF_CTX* const context = EVP_KDF_CTX_new(hkdf);
  int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY,
                                        const_cast<uint8_t*>(secret.data()),
                                        secret.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(),
                                        info.size()),
      OSSL_PARAM_construct_end()};
  CHECK_EQ(EVP_KDF_derive(context, out.data(), out.size(), parameters), 1);
  EVP_KDF_CTX_free(context);
  EVP_KDF_free(hkdf);
}

}  // namespace

SealKeys::~SealKeys() { OPENSSL_cleanse(secret_.data(), secret_.size()); }

void SealKeys::Derive(uint64_t epoch, Key* key) const {
  std::array<uint8_t, 32> bytes;
  Expand(secret_, absl::StrCat("verbena key ", epoch), absl::MakeSpan(bytes));
  Expand(secret_, absl::StrCat("verbena iv ", epoch), absl::MakeSpan(key->iv));
  if (key->context == nullptr) key->context.reset(EVP_CIPHER_CTX_new());
  const EVP_CIPHER* const cipher = cipher_ == SealCipher::kAes256Gcm
                                       ? EVP_aes_256_gcm()
                                       : EVP_chacha20_poly1305();
  CHECK_EQ(EVP_CipherInit_ex(key->context.get(), cipher, nullptr, bytes.data(),
                             key->iv.data(), seals_ ? 1 : 0),
           1);
  OPENSSL_cleanse(bytes.data(), bytes.size());
  key->epoch = epoch;
}

// The steps of an AEAD fail only if they are called in a wrong order.
void SealKeys::Seal(uint64_t number, absl::Span<const uint8_t> plain,
                    uint8_t* sealed, uint8_t* tag) {
  Nonce nonce;
  EVP_CIPHER_CTX* const context = Prepare(number, &nonce);
  int bytes = 0;
  CHECK_EQ(EVP_EncryptInit_ex(context, nullptr, nullptr, nullptr, nonce.data()),
           1);
  CHECK_EQ(EVP_EncryptUpdate(context, sealed, &bytes, plain.data(),
                             static_cast<int>(plain.size())),
           1);
  CHECK_EQ(EVP_EncryptFinal_ex(context, sealed + bytes, &bytes), 1);
  CHECK_EQ(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG,
                               transport::kSealTagBytes, tag),
           1);
}

bool SealKeys::Open(uint64_t number, absl::Span<uint8_t> bytes,
                    const uint8_t* tag) {
  Nonce nonce;
  EVP_CIPHER_CTX* const context = Prepare(number, &nonce);
  int opened = 0;
  CHECK_EQ(EVP_DecryptInit_ex(context, nullptr, nullptr, nullptr, nonce.data()),
           1);
  CHECK_EQ(
      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG,
                          transport::kSealTagBytes, const_cast<uint8_t*>(tag)),
      1);
  CHECK_EQ(EVP_DecryptUpdate(context, bytes.data(), &opened, bytes.data(),
                             static_cast<int>(bytes.size())),
           1);
  return EVP_DecryptFinal_ex(context, bytes.data() + opened, &opened) == 1;
}

}  // namespace verbena::internal
