#include "rpc/credentials/tls_peer.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <array>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace verbena::internal {
namespace {

using transport::AuthContext;

constexpr char kAlternativeName[] = "x509_subject_alternative_name";
constexpr char kCommonName[] = "x509_common_name";

struct FreeOther {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};
using BioPtr = std::unique_ptr<BIO, FreeOther>;

std::string TextOf(const ASN1_STRING* string) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(string)),
          static_cast<size_t>(ASN1_STRING_length(string))};
}

std::string Written(BIO* bio) {
  char* text = nullptr;
  const long bytes = BIO_get_mem_data(bio, &text);
  return bytes > 0 ? std::string(text, static_cast<size_t>(bytes)) : "";
}

std::string IpText(const ASN1_STRING* bytes) {
  const int family = ASN1_STRING_length(bytes) == 4 ? AF_INET : AF_INET6;
  if (family == AF_INET6 && ASN1_STRING_length(bytes) != 16) return "";
  std::array<char, INET6_ADDRSTRLEN> text;
  return inet_ntop(family, ASN1_STRING_get0_data(bytes), text.data(),
                   text.size());
}

struct AlternativeName {
  const char* property;
  std::string text;
};

// Those of a kind that has a property. A name with a zero in it is none:
// whoever compares it as text would see another one.
std::vector<AlternativeName> AlternativeNames(X509* certificate) {
  std::vector<AlternativeName> found;
  const std::unique_ptr<GENERAL_NAMES, FreeOther> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(
          certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    AlternativeName one = {};
    switch (name->type) {
      case GEN_DNS:
        one = {"peer_dns", TextOf(name->d.dNSName)};
        break;
      case GEN_URI:
        one = {"peer_uri", TextOf(name->d.uniformResourceIdentifier)};
        break;
      case GEN_EMAIL:
        one = {"peer_email", TextOf(name->d.rfc822Name)};
        break;
      case GEN_IPADD:
        one = {"peer_ip", IpText(name->d.iPAddress)};
        break;
      default:
        continue;
    }
    if (!one.text.empty() && one.text.find('\0') == std::string::npos) {
      found.push_back(std::move(one));
    }
  }
  return found;
}

std::string CommonName(X509* certificate) {
  X509_NAME* const subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  return at < 0 ? ""
                : TextOf(X509_NAME_ENTRY_get_data(
                      X509_NAME_get_entry(subject, at)));
}

std::string Subject(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), X509_get_subject_name(certificate), 0,
                     XN_FLAG_RFC2253);
  return Written(bio.get());
}

std::string Pem(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  return Written(bio.get());
}

// SPIFFE: a certificate with such a URI has no other.
void AddSpiffeId(AuthContext* peer) {
  const std::vector<std::string> uris = peer->FindPropertyValues("peer_uri");
  if (uris.size() == 1 && absl::StartsWith(uris.front(), "spiffe://")) {
    peer->AddProperty("peer_spiffe_id", uris.front());
  }
}

void AddCertificate(X509* certificate, AuthContext* peer) {
  peer->AddProperty("x509_subject", Subject(certificate));
  const std::string common_name = CommonName(certificate);
  if (!common_name.empty()) peer->AddProperty(kCommonName, common_name);
  for (const AlternativeName& name : AlternativeNames(certificate)) {
    peer->AddProperty(kAlternativeName, name.text);
    peer->AddProperty(name.property, name.text);
  }
  AddSpiffeId(peer);
  peer->AddProperty("x509_pem_cert", Pem(certificate));
  if (!peer->SetPeerIdentityPropertyName(kAlternativeName)) {
    peer->SetPeerIdentityPropertyName(kCommonName);
  }
}

}  // namespace

std::shared_ptr<AuthContext> PeerOf(const SSL* ssl) {
  auto peer = std::make_shared<AuthContext>();
  peer->AddProperty(transport::kSecurityTypeProperty, "ssl");
  peer->AddProperty("security_level", "TSI_PRIVACY_AND_INTEGRITY");
  peer->AddProperty("ssl_session_reused",
                    SSL_session_reused(ssl) == 1 ? "true" : "false");
  peer->AddProperty("tls_cipher", SSL_get_cipher_name(ssl));
  const std::unique_ptr<X509, FreeOther> certificate(
      SSL_get1_peer_certificate(ssl));
  if (certificate != nullptr) AddCertificate(certificate.get(), peer.get());
  return peer;
}

std::string NamesOf(X509* certificate) {
  std::vector<std::string> names;
  for (AlternativeName& name : AlternativeNames(certificate)) {
    names.push_back(std::move(name.text));
  }
  if (names.empty()) names.push_back(CommonName(certificate));
  return absl::StrJoin(names, ", ");
}

}  // namespace verbena::internal
