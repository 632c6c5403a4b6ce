#include "tools/certificates/certificates.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ec.h>
#include <openssl/objects.h>
#include <openssl/rsa.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/civil_time.h"
#include "tools/certificates/openssl_objects.h"
#include "transport/base/status_macros.h"

namespace verbena::certificates {
namespace {

// ub-common-name of RFC 5280.
constexpr size_t kMaxCommonName = 64;
constexpr size_t kMaxDnsName = 253;
constexpr size_t kMaxDnsLabel = 63;
// A serial number has 20 bytes at most, and is positive.
constexpr int kSerialBits = 159;

// The years that a certificate can name, with two digits up to 2049.
constexpr absl::civil_year_t kFirstYear = 1950;
constexpr absl::civil_year_t kLastYear = 9999;

// A certificate and a private key that signs others by it.
struct Signer {
  X509* certificate;
  EVP_PKEY* key;
};

bool IsAddress(const std::string& name) {
  in6_addr room;
  return inet_pton(AF_INET, name.c_str(), &room) == 1 ||
         inet_pton(AF_INET6, name.c_str(), &room) == 1;
}

bool IsUri(absl::string_view name) {
  const size_t end = name.find("://");
  return end != absl::string_view::npos && end > 0 &&
         absl::ascii_isalpha(name[0]) && end + 3 < name.size() &&
         std::all_of(name.begin(), name.end(), absl::ascii_isgraph);
}

bool IsDnsName(absl::string_view name) {
  if (name.empty() || name.size() > kMaxDnsName) return false;
  // A wildcard stands for one whole label, the first of several.
  if (absl::StartsWith(name, "*.")) name.remove_prefix(2);
  // The last label of an address that is mistyped, as 10.0.0.256.
  const absl::string_view last = name.substr(name.rfind('.') + 1);
  if (std::all_of(last.begin(), last.end(), absl::ascii_isdigit)) return false;
  for (const absl::string_view label : absl::StrSplit(name, '.')) {
    if (label.empty() || label.size() > kMaxDnsLabel || label.front() == '-' ||
        label.back() == '-' ||
        !std::all_of(label.begin(), label.end(), [](unsigned char each) {
          return absl::ascii_isalnum(each) || each == '-' || each == '_';
        })) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<Owned<EVP_PKEY>> MakeKey(KeyType type) {
  const auto make = [type] {
    switch (type) {
      case KeyType::kP384:
        return EVP_EC_gen("P-384");
      case KeyType::kRsa2048:
        return EVP_RSA_gen(2048);
      case KeyType::kRsa1024:
        return EVP_RSA_gen(1024);
      default:
        return EVP_EC_gen("P-256");
    }
  };
  Owned<EVP_PKEY> key(make());
  if (key == nullptr) return OpenSslError("cannot make a private key");
  return key;
}

absl::Status SetSerial(X509* certificate) {
  const Owned<BIGNUM> number(BN_new());
  if (number == nullptr ||
      BN_rand(number.get(), kSerialBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) !=
          1 ||
      BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) ==
          nullptr) {
    return OpenSslError("cannot make a serial number");
  }
  return absl::OkStatus();
}

absl::Status SetTimes(X509* certificate, absl::Time not_before,
                      absl::Time not_after) {
  if (not_after <= not_before) {
    return absl::InvalidArgumentError(
        absl::StrCat("a certificate from ", absl::FormatTime(not_before),
                     " to ", absl::FormatTime(not_after), " is never valid"));
  }
  // OpenSSL would write a year of five digits.
  const absl::TimeZone utc = absl::UTCTimeZone();
  if (absl::ToCivilYear(not_before, utc).year() < kFirstYear ||
      absl::ToCivilYear(not_after, utc).year() > kLastYear ||
      ASN1_TIME_set(X509_getm_notBefore(certificate),
                    absl::ToTimeT(not_before)) == nullptr ||
      ASN1_TIME_set(X509_getm_notAfter(certificate),
                    absl::ToTimeT(not_after)) == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a certificate cannot name the times ", absl::FormatTime(not_before),
        " and ", absl::FormatTime(not_after)));
  }
  return absl::OkStatus();
}

absl::Status SetSubject(X509* certificate, const std::string& common_name) {
  if (common_name.size() > kMaxCommonName) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the common name \"", common_name, "\" has ", common_name.size(),
        " bytes, at most ", kMaxCommonName, " are allowed"));
  }
  if (common_name.empty()) return absl::OkStatus();
  if (X509_NAME_add_entry_by_NID(
          X509_get_subject_name(certificate), NID_commonName, MBSTRING_UTF8,
          reinterpret_cast<const unsigned char*>(common_name.data()),
          static_cast<int>(common_name.size()), -1, 0) != 1) {
    return absl::InvalidArgumentError(
        OpenSslError(
            absl::StrCat("the common name \"", common_name, "\" is not valid"))
            .message());
  }
  return absl::OkStatus();
}

// Adds the extension `nid`, with a value as configuration files of OpenSSL have
// it. The value must be a constant, because commas in it separate its parts.
absl::Status AddExtension(const Signer& signer, X509* certificate, int nid,
                          const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, signer.certificate, certificate, nullptr, nullptr,
                 0);
  const Owned<X509_EXTENSION> extension(
      X509V3_EXT_nconf_nid(nullptr, &context, nid, value));
  if (extension == nullptr ||
      X509_add_ext(certificate, extension.get(), -1) != 1) {
    return OpenSslError(absl::StrCat("cannot add ", OBJ_nid2sn(nid)));
  }
  return absl::OkStatus();
}

// Returns a subjectAltName. REQUIRES: CheckName(name) is OK.
absl::StatusOr<Owned<GENERAL_NAME>> ToGeneralName(const std::string& name) {
  Owned<GENERAL_NAME> general(GENERAL_NAME_new());
  int type = IsUri(name) ? GEN_URI : GEN_DNS;
  ASN1_STRING* value = nullptr;
  if (IsAddress(name)) {
    type = GEN_IPADD;
    value = a2i_IPADDRESS(name.c_str());
  } else {
    value = ASN1_STRING_type_new(V_ASN1_IA5STRING);
    if (value != nullptr) {
      ASN1_STRING_set(value, name.data(), static_cast<int>(name.size()));
    }
  }
  if (general == nullptr || value == nullptr ||
      ASN1_STRING_length(value) == 0) {
    ASN1_STRING_free(value);
    return OpenSslError(absl::StrCat("cannot add the name ", name));
  }
  GENERAL_NAME_set0_value(general.get(), type, value);
  return general;
}

// Builds the extension from objects, not from text, because a name may have
// commas.
absl::Status AddNames(const std::vector<std::string>& names, bool critical,
                      X509* certificate) {
  if (names.empty()) return absl::OkStatus();
  const Owned<GENERAL_NAMES> all(GENERAL_NAMES_new());
  for (const std::string& name : names) {
    RETURN_IF_ERROR(CheckName(name));
    ASSIGN_OR_RETURN(Owned<GENERAL_NAME> general, ToGeneralName(name));
    if (all == nullptr || sk_GENERAL_NAME_push(all.get(), general.get()) < 1) {
      return OpenSslError("cannot add names");
    }
    general.release();  // NOLINT: `all` owns it.
  }
  if (X509_add1_ext_i2d(certificate, NID_subject_alt_name, all.get(),
                        critical ? 1 : 0, X509V3_ADD_DEFAULT) != 1) {
    return OpenSslError("cannot add names");
  }
  return absl::OkStatus();
}

// Returns the value of extendedKeyUsage; null if there is no such extension.
const char* ExtendedKeyUsage(Usage usage) {
  switch (usage) {
    case Usage::kServer:
      return "serverAuth";
    case Usage::kClient:
      return "clientAuth";
    case Usage::kServerAndClient:
      return "serverAuth,clientAuth";
    case Usage::kCodeSigning:
      return "codeSigning";
    default:
      return nullptr;
  }
}

// Returns a certificate for `key` without extensions and signature.
template <typename Options>
absl::StatusOr<Owned<X509>> Begin(const Options& options, EVP_PKEY* key) {
  Owned<X509> certificate(X509_new());
  if (certificate == nullptr ||
      X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
      X509_set_pubkey(certificate.get(), key) != 1) {
    return OpenSslError("cannot make a certificate");
  }
  RETURN_IF_ERROR(SetSerial(certificate.get()));
  RETURN_IF_ERROR(
      SetTimes(certificate.get(), options.not_before, options.not_after));
  RETURN_IF_ERROR(SetSubject(certificate.get(), options.common_name));
  return certificate;
}

// Names the issuer, adds the identifiers of both keys, signs, and returns both
// in PEM.
absl::StatusOr<Issued> Finish(const Signer& signer, Digest digest,
                              X509* certificate, EVP_PKEY* key) {
  if (X509_set_issuer_name(certificate,
                           X509_get_subject_name(signer.certificate)) != 1) {
    return OpenSslError("cannot name the issuer");
  }
  RETURN_IF_ERROR(
      AddExtension(signer, certificate, NID_subject_key_identifier, "hash"));
  RETURN_IF_ERROR(AddExtension(signer, certificate,
                               NID_authority_key_identifier, "keyid:always"));
  if (X509_sign(certificate, signer.key,
                digest == Digest::kSha1 ? EVP_sha1() : EVP_sha256()) == 0) {
    return OpenSslError("cannot sign a certificate");
  }
  Issued issued;
  ASSIGN_OR_RETURN(issued.certificate, ToPem(certificate));
  ASSIGN_OR_RETURN(issued.key, ToPem(key));
  return issued;
}

// Makes an authority that `parent` signs, or one that signs itself if `parent`
// is null.
absl::StatusOr<Issued> MakeAuthority(const Signer* parent,
                                     const AuthorityOptions& options) {
  if (options.common_name.empty()) {
    return absl::InvalidArgumentError(
        "the certificate of an authority needs a common name");
  }
  ASSIGN_OR_RETURN(const Owned<EVP_PKEY> key, MakeKey(options.key_type));
  ASSIGN_OR_RETURN(const Owned<X509> certificate, Begin(options, key.get()));
  const Signer signer =
      parent == nullptr ? Signer{certificate.get(), key.get()} : *parent;
  RETURN_IF_ERROR(AddExtension(signer, certificate.get(), NID_basic_constraints,
                               "critical,CA:TRUE"));
  RETURN_IF_ERROR(AddExtension(signer, certificate.get(), NID_key_usage,
                               "critical,keyCertSign,cRLSign"));
  return Finish(signer, options.digest, certificate.get(), key.get());
}

// The objects behind a Signer.
struct Authority {
  Owned<X509> certificate;
  Owned<EVP_PKEY> key;

  Signer signer() const { return {certificate.get(), key.get()}; }
};

absl::StatusOr<Authority> ReadAuthority(const Issued& pem) {
  ASSIGN_OR_RETURN(std::vector<Owned<X509>> certificates,
                   ReadCertificates(pem.certificate));
  ASSIGN_OR_RETURN(Owned<EVP_PKEY> key, ReadPrivateKey(pem.key));
  return Authority{std::move(certificates.front()), std::move(key)};
}

}  // namespace

absl::StatusOr<Issued> MakeCertificateAuthority(
    const AuthorityOptions& options) {
  return MakeAuthority(nullptr, options);
}

absl::StatusOr<Issued> MakeIntermediateAuthority(
    const Issued& authority, const AuthorityOptions& options) {
  ASSIGN_OR_RETURN(const Authority read, ReadAuthority(authority));
  const Signer signer = read.signer();
  return MakeAuthority(&signer, options);
}

absl::StatusOr<Issued> Issue(const Issued& authority,
                             const IssueOptions& options) {
  ASSIGN_OR_RETURN(const Authority read, ReadAuthority(authority));
  const Signer signer = read.signer();
  ASSIGN_OR_RETURN(const Owned<EVP_PKEY> key, MakeKey(options.key_type));
  ASSIGN_OR_RETURN(const Owned<X509> certificate, Begin(options, key.get()));
  RETURN_IF_ERROR(AddExtension(signer, certificate.get(), NID_basic_constraints,
                               "critical,CA:FALSE"));
  // TLS 1.3 and the ECDHE of TLS 1.2 only sign.
  RETURN_IF_ERROR(AddExtension(signer, certificate.get(), NID_key_usage,
                               "critical,digitalSignature"));
  if (const char* const usage = ExtendedKeyUsage(options.usage)) {
    RETURN_IF_ERROR(
        AddExtension(signer, certificate.get(), NID_ext_key_usage, usage));
  }
  // RFC 5280, 4.2.1.6.
  RETURN_IF_ERROR(AddNames(options.names,
                           /*critical=*/options.common_name.empty(),
                           certificate.get()));
  return Finish(signer, options.digest, certificate.get(), key.get());
}

absl::Status CheckName(absl::string_view name) {
  if (IsAddress(std::string(name)) || IsUri(name) || IsDnsName(name)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", name, "\" is no DNS name, IP address or URI"));
}

}  // namespace verbena::certificates
