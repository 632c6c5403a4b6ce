#include "tools/certificates/describe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/objects.h>

#include <cstddef>
#include <ctime>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace verbena::certificates {
namespace {

absl::string_view BytesOf(const ASN1_STRING* text) {
  return absl::string_view(
      reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
      static_cast<size_t>(ASN1_STRING_length(text)));
}

// Returns an IPv4 or IPv6 address in digits; "" for another number of bytes.
std::string AddressOf(absl::string_view bytes) {
  char text[INET6_ADDRSTRLEN] = "";
  if (bytes.size() == sizeof(in_addr)) {
    inet_ntop(AF_INET, bytes.data(), text, sizeof(text));
  } else if (bytes.size() == sizeof(in6_addr)) {
    inet_ntop(AF_INET6, bytes.data(), text, sizeof(text));
  }
  return text;
}

// Returns "" for a kind of name that TLS does not compare.
std::string NameOf(const GENERAL_NAME* name) {
  int type = 0;
  const void* const value = GENERAL_NAME_get0_value(name, &type);
  switch (type) {
    case GEN_DNS:
    case GEN_URI:
      return absl::CHexEscape(
          BytesOf(static_cast<const ASN1_IA5STRING*>(value)));
    case GEN_IPADD:
      return AddressOf(BytesOf(static_cast<const ASN1_OCTET_STRING*>(value)));
    default:
      return "";
  }
}

// Returns "CN=a,O=b"; "" for a name without parts.
std::string TextOf(const X509_NAME* name) {
  const Owned<BIO> writer(BIO_new(BIO_s_mem()));
  if (writer == nullptr ||
      X509_NAME_print_ex(writer.get(), name, 0, XN_FLAG_RFC2253) < 0) {
    return "";
  }
  char* text = nullptr;
  const long size = BIO_get_mem_data(writer.get(), &text);
  return std::string(text, static_cast<size_t>(size));
}

absl::Time ToTime(const ASN1_TIME* time) {
  std::tm parts = {};
  // Without a time OpenSSL would answer with the time now.
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) {
    return absl::InfinitePast();
  }
  return absl::FromTM(parts, absl::UTCTimeZone());
}

}  // namespace

std::string SubjectOf(X509* certificate) {
  const std::string subject = TextOf(X509_get_subject_name(certificate));
  if (!subject.empty()) return subject;
  const std::vector<std::string> names = NamesOf(certificate);
  return names.empty() ? "a certificate without a name" : names.front();
}

std::string IssuerOf(X509* certificate) {
  return TextOf(X509_get_issuer_name(certificate));
}

std::vector<std::string> NamesOf(X509* certificate) {
  std::vector<std::string> found;
  const Owned<GENERAL_NAMES> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  // The number is -1 if there is no such extension.
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    std::string name = NameOf(sk_GENERAL_NAME_value(names.get(), i));
    if (!name.empty()) found.push_back(std::move(name));
  }
  return found;
}

absl::Time BeginningOf(X509* certificate) {
  return ToTime(X509_get0_notBefore(certificate));
}

absl::Time EndOf(X509* certificate) {
  return ToTime(X509_get0_notAfter(certificate));
}

std::string KeyTextOf(X509* certificate) {
  EVP_PKEY* const key = X509_get0_pubkey(certificate);
  if (key == nullptr) return "a key of an unknown kind";
  const char* const type = EVP_PKEY_get0_type_name(key);
  return absl::StrCat(type == nullptr ? "a key" : type, " of ",
                      EVP_PKEY_get_bits(key), " bits");
}

}  // namespace verbena::certificates
