#include "rpc/credentials/tls_context.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {
namespace {

// Sessions that a server keeps for its clients: a few MiB. The oldest go first,
// and their clients show their certificates again.
constexpr long kServerSessions = 4096;

// Names the protocol above TLS, so that no other server answers in its place.
constexpr uint8_t kAlpn[] = {7, 'v', 'e', 'r', 'b', 'e', 'n', 'a'};

struct FreeOther {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using BioPtr = std::unique_ptr<BIO, FreeOther>;
using X509Ptr = std::unique_ptr<X509, FreeOther>;

absl::Status Unusable(absl::string_view what) {
  return absl::InvalidArgumentError(WithSslErrors(what));
}

BioPtr Reader(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Never asks anybody for the password of an encrypted key.
int NoPassword(char*, int, int, void*) { return -1; }

X509Ptr ReadCertificate(BIO* pem) {
  return X509Ptr(PEM_read_bio_X509(pem, nullptr, NoPassword, nullptr));
}

// The end of the text is an error of the parser, too, which is dropped.
absl::Status AddRoots(const std::string& pem, SSL_CTX* context) {
  const BioPtr reader = Reader(pem);
  int count = 0;
  while (const X509Ptr root = ReadCertificate(reader.get())) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), root.get()) != 1 ||
        SSL_CTX_add_client_CA(context, root.get()) != 1) {
      return Unusable("a root certificate cannot be used");
    }
    ++count;
  }
  if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
    return Unusable(
        absl::StrCat("root certificate ", count + 1, " cannot be read"));
  }
  ERR_clear_error();
  if (count > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "there is no certificate among the root certificates");
}

absl::Status UseIdentity(const IdentityKeyCertPair& pair, SSL_CTX* context) {
  const BioPtr chain = Reader(pair.certificate_chain);
  const X509Ptr leaf = ReadCertificate(chain.get());
  if (leaf == nullptr || SSL_CTX_use_certificate(context, leaf.get()) != 1) {
    return Unusable("the certificate of an identity cannot be read");
  }
  while (X509Ptr next = ReadCertificate(chain.get())) {
    // The context has it from then on.
    if (SSL_CTX_add0_chain_cert(context, next.get()) != 1) {
      return Unusable("the chain of a certificate cannot be used");
    }
    next.release();
  }
  ERR_clear_error();
  const std::unique_ptr<EVP_PKEY, FreeOther> key(PEM_read_bio_PrivateKey(
      Reader(pair.private_key).get(), nullptr, NoPassword, nullptr));
  if (key == nullptr) {
    return Unusable(
        "the private key of an identity cannot be read (keys with a password "
        "are not taken)");
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
    return Unusable("a private key does not belong to its certificate");
  }
  return absl::OkStatus();
}

// TLS 1.3 alone, whose two good ciphers are enough.
absl::StatusOr<SslContextPtr> NewContext(const SSL_METHOD* method) {
  ERR_clear_error();
  SslContextPtr context(SSL_CTX_new(method));
  if (context == nullptr ||
      SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(
          context.get(),
          "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256") != 1) {
    return Unusable("OpenSSL cannot be used");
  }
  return context;
}

int ChooseProtocol(SSL*, const uint8_t** chosen, uint8_t* chosen_bytes,
                   const uint8_t* offered, unsigned int offered_bytes, void*) {
  return SSL_select_next_proto(const_cast<uint8_t**>(chosen), chosen_bytes,
                               kAlpn, sizeof(kAlpn), offered,
                               offered_bytes) == OPENSSL_NPN_NEGOTIATED
             ? SSL_TLSEXT_ERR_OK
             : SSL_TLSEXT_ERR_ALERT_FATAL;
}

// Sessions stay at the server, so that tickets are short. Those of one context
// are valid in that one alone: other certificates, other sessions.
absl::StatusOr<SslContextPtr> NewServerContext(
    const TlsCertificates& certificates, const IdentityKeyCertPair& identity,
    int verify) {
  ASSIGN_OR_RETURN(SslContextPtr context, NewContext(TLS_server_method()));
  SSL_CTX* const raw = context.get();
  RETURN_IF_ERROR(UseIdentity(identity, raw));
  if (!certificates.root_certs.empty()) {
    RETURN_IF_ERROR(AddRoots(certificates.root_certs, raw));
  }
  SSL_CTX_set_verify(raw, verify, nullptr);
  SSL_CTX_set_options(raw, SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE |
                               SSL_OP_PRIORITIZE_CHACHA);
  SSL_CTX_set_num_tickets(raw, 1);
  SSL_CTX_sess_set_cache_size(raw, kServerSessions);
  constexpr uint8_t kSessionContext[] = {'v'};
  SSL_CTX_set_session_id_context(raw, kSessionContext, sizeof(kSessionContext));
  SSL_CTX_set_alpn_select_cb(raw, ChooseProtocol, nullptr);
  return context;
}

bool HasName(SSL_CTX* context, const char* name) {
  X509* const certificate = SSL_CTX_get0_certificate(context);
  return X509_check_host(certificate, name, 0, 0, nullptr) == 1;
}

}  // namespace

std::string WithSslErrors(absl::string_view what) {
  std::string text(what);
  const char* separator = ": ";
  while (const unsigned long error = ERR_get_error()) {
    const char* const reason = ERR_reason_error_string(error);
    absl::StrAppend(&text, std::exchange(separator, ", "),
                    reason != nullptr ? reason : "unknown");
  }
  return text;
}

SslSessionPtr TlsSessions::Take(const std::string& server_name) {
  const base::MutexLock lock(mutex_);
  const auto it = sessions_.find(server_name);
  if (it == sessions_.end()) return nullptr;
  SslSessionPtr session = std::move(it->second.back());
  it->second.pop_back();
  if (it->second.empty()) sessions_.erase(it);
  return session;
}

void TlsSessions::Put(const std::string& server_name, SslSessionPtr session) {
  const base::MutexLock lock(mutex_);
  if (sessions_.size() >= kServers && !sessions_.contains(server_name)) return;
  std::deque<SslSessionPtr>& of_server = sessions_[server_name];
  if (of_server.size() >= kPerServer) of_server.pop_front();
  of_server.push_back(std::move(session));
}

absl::StatusOr<std::shared_ptr<TlsContext>> TlsContext::ForClient(
    const TlsCertificates& certificates, int verify) {
  ASSIGN_OR_RETURN(SslContextPtr context, NewContext(TLS_client_method()));
  SSL_CTX* const raw = context.get();
  if (!certificates.root_certs.empty()) {
    RETURN_IF_ERROR(AddRoots(certificates.root_certs, raw));
  } else if (SSL_CTX_set_default_verify_paths(raw) != 1) {
    return Unusable("the system's root certificates cannot be read");
  }
  if (!certificates.identity.empty()) {
    RETURN_IF_ERROR(UseIdentity(certificates.identity.front(), raw));
  }
  SSL_CTX_set_verify(raw, verify, nullptr);
  SSL_CTX_set_alpn_protos(raw, kAlpn, sizeof(kAlpn));
  // The handshake takes the sessions, and keeps them by the server's name.
  SSL_CTX_set_session_cache_mode(
      raw, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  std::shared_ptr<TlsContext> result(new TlsContext);
  result->contexts_.push_back(std::move(context));
  return result;
}

absl::StatusOr<std::shared_ptr<TlsContext>> TlsContext::ForServer(
    const TlsCertificates& certificates, int verify) {
  if (certificates.identity.empty()) {
    return absl::InvalidArgumentError("a server needs a certificate");
  }
  if (verify != SSL_VERIFY_NONE && certificates.root_certs.empty()) {
    return absl::InvalidArgumentError(
        "a server that wants certificates of its clients needs root "
        "certificates");
  }
  std::shared_ptr<TlsContext> result(new TlsContext);
  for (const IdentityKeyCertPair& identity : certificates.identity) {
    ASSIGN_OR_RETURN(SslContextPtr context,
                     NewServerContext(certificates, identity, verify));
    result->contexts_.push_back(std::move(context));
  }
  SSL_CTX* const first = result->contexts_.front().get();
  SSL_CTX_set_tlsext_servername_callback(first, ChooseIdentity);
  SSL_CTX_set_tlsext_servername_arg(first, result.get());
  return result;
}

// Without a name, or with one that no certificate has, the first identity
// stays: then the client says what it thinks of it.
int TlsContext::ChooseIdentity(SSL* ssl, int* /*alert*/, void* self) {
  const char* const name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
  if (name == nullptr) return SSL_TLSEXT_ERR_NOACK;
  for (const SslContextPtr& context :
       static_cast<TlsContext*>(self)->contexts_) {
    if (!HasName(context.get(), name)) continue;
    SSL_set_SSL_CTX(ssl, context.get());
    return SSL_TLSEXT_ERR_OK;
  }
  return SSL_TLSEXT_ERR_NOACK;
}

SslPtr TlsContext::NewConnection() const {
  SslPtr ssl(SSL_new(contexts_.front().get()));
  BIO* const in = BIO_new(BIO_s_mem());
  BIO* const out = BIO_new(BIO_s_mem());
  if (ssl == nullptr || in == nullptr || out == nullptr) {
    BIO_free(in);
    BIO_free(out);
    return nullptr;
  }
  SSL_set_bio(ssl.get(), in, out);
  return ssl;
}

// Old connections keep the context that they have begun with.
absl::StatusOr<std::shared_ptr<TlsContext>> TlsContexts::Current() const {
  const TlsCertificates none;
  const std::shared_ptr<const TlsCertificates> certificates =
      provider_ == nullptr ? nullptr : provider_->Current();
  const base::MutexLock lock(mutex_);
  if (!context_.ok() || *context_ == nullptr || certificates_ != certificates) {
    certificates_ = certificates;
    context_ =
        factory_(certificates == nullptr ? none : *certificates, verify_);
  }
  return context_;
}

}  // namespace verbena::internal
