#include "tools/certificates/verify.h"

#include <openssl/err.h>

#include "tools/certificates/describe.h"

namespace verbena::certificates {
namespace {

void SetParameters(const VerifyOptions& options,
                   X509_VERIFY_PARAM* parameters) {
  X509_VERIFY_PARAM_set_auth_level(parameters, options.security_level);
  if (options.strict) {
    X509_VERIFY_PARAM_set_flags(parameters, X509_V_FLAG_X509_STRICT);
  }
  if (options.time == absl::InfinitePast()) {
    X509_VERIFY_PARAM_set_flags(parameters, X509_V_FLAG_NO_CHECK_TIME);
  } else if (options.time.has_value()) {
    X509_VERIFY_PARAM_set_time(parameters, absl::ToTimeT(*options.time));
  }
  if (options.name.empty()) return;
  // A subject is no name of a server: RFC 6125.
  X509_VERIFY_PARAM_set_hostflags(parameters,
                                  X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  // A text that is not an address is a DNS name.
  if (X509_VERIFY_PARAM_set1_ip_asc(parameters, options.name.c_str()) != 1) {
    X509_VERIFY_PARAM_set1_host(parameters, options.name.data(),
                                options.name.size());
  }
}

}  // namespace

Verdict Verify(const std::vector<Owned<X509>>& trusted,
               const std::vector<Owned<X509>>& chain,
               const VerifyOptions& options) {
  const Owned<X509_STORE> store(X509_STORE_new());
  const Owned<STACK_OF(X509)> others(sk_X509_new_null());
  const Owned<X509_STORE_CTX> context(X509_STORE_CTX_new());
  bool ready = store != nullptr && others != nullptr && context != nullptr;
  for (const Owned<X509>& each : trusted) {
    ready = ready && X509_STORE_add_cert(store.get(), each.get()) == 1;
  }
  for (size_t i = 1; i < chain.size(); ++i) {
    ready = ready && sk_X509_push(others.get(), chain[i].get()) > 0;
  }
  if (!ready || X509_STORE_CTX_init(context.get(), store.get(),
                                    chain.front().get(), others.get()) != 1) {
    return {X509_V_ERR_OUT_OF_MEM, "out of memory", ""};
  }
  if (options.purpose != 0) {
    X509_STORE_CTX_set_purpose(context.get(), options.purpose);
  }
  SetParameters(options, X509_STORE_CTX_get0_param(context.get()));
  const bool ok = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  Verdict verdict;
  verdict.code = X509_STORE_CTX_get_error(context.get());
  verdict.reason = X509_verify_cert_error_string(verdict.code);
  const STACK_OF(X509)* const built = X509_STORE_CTX_get0_chain(context.get());
  X509* const about = ok ? sk_X509_value(built, sk_X509_num(built) - 1)
                         : X509_STORE_CTX_get_current_cert(context.get());
  if (about != nullptr) verdict.subject = SubjectOf(about);
  return verdict;
}

}  // namespace verbena::certificates
