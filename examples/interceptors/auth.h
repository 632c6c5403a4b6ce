// Authentication by a token: the client sends it, and the server checks it.

#ifndef VERBENA_EXAMPLES_INTERCEPTORS_AUTH_H_
#define VERBENA_EXAMPLES_INTERCEPTORS_AUTH_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "rpc/client_interceptor.h"
#include "rpc/metadata.h"
#include "rpc/server_interceptor.h"

namespace interceptors {

inline constexpr char kAuthorization[] = "authorization";

// Adds the token to the metadata of each call.
class TokenSender final : public verbena::ClientInterceptorFactory {
 public:
  explicit TokenSender(const std::string& token) : token_("Bearer " + token) {}

  std::unique_ptr<verbena::ClientInterceptor> CreateClientInterceptor(
      verbena::ClientRpcInfo* info) override {
    return std::make_unique<Sender>(info, token_);
  }

 private:
  class Sender final : public verbena::ClientInterceptor {
   public:
    Sender(verbena::ClientRpcInfo* info, const std::string& token)
        : info_(*info), token_(token) {}
    absl::Status OnStart() override {
      // The context drops this pair when the call ends.
      info_.client_context()->AddMetadata(kAuthorization, token_);
      return absl::OkStatus();
    }

   private:
    verbena::ClientRpcInfo& info_;
    const std::string& token_;  // The factory's, which the channel keeps.
  };

  const std::string token_;
};

// Refuses calls without the token, before their handlers run.
class TokenChecker final : public verbena::ServerInterceptorFactory {
 public:
  explicit TokenChecker(const std::string& token) : token_("Bearer " + token) {}

  std::unique_ptr<verbena::ServerInterceptor> CreateServerInterceptor(
      verbena::ServerRpcInfo* info) override {
    return std::make_unique<Checker>(info, token_);
  }

 private:
  class Checker final : public verbena::ServerInterceptor {
   public:
    Checker(verbena::ServerRpcInfo* info, const std::string& token)
        : info_(*info), token_(token) {}
    absl::Status OnStart() override {
      const verbena::Metadata& metadata =
          info_.server_context()->client_metadata();
      const auto found = metadata.find(kAuthorization);
      if (found == metadata.end()) {
        return absl::UnauthenticatedError("the call brings no token");
      }
      if (!IsSame(found->second, token_)) {
        return absl::UnauthenticatedError("the token is not the right one");
      }
      return absl::OkStatus();
    }

   private:
    // Takes equally long whichever byte differs, so that the time does not help
    // to guess the token byte by byte.
    static bool IsSame(const std::string& one, const std::string& other) {
      if (one.size() != other.size()) return false;
      unsigned char difference = 0;
      for (size_t i = 0; i < one.size(); ++i) difference |= one[i] ^ other[i];
      return difference == 0;
    }

    verbena::ServerRpcInfo& info_;
    const std::string& token_;  // The factory's, which the server keeps.
  };

  const std::string token_;
};

}  // namespace interceptors

#endif  // VERBENA_EXAMPLES_INTERCEPTORS_AUTH_H_
