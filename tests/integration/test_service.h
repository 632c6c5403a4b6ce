// The services that the end-to-end tests call.

#ifndef VERBENA_TESTS_INTEGRATION_TEST_SERVICE_H_
#define VERBENA_TESTS_INTEGRATION_TEST_SERVICE_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "rpc/server_context.h"
#include "tests/integration/test_service.pb.h"
#include "tests/integration/test_service.verbena.h"
#include "transport/base/mutex.h"

namespace verbena::end_to_end {

// `bytes` bytes that differ from place to place and from seed to seed.
std::string Pattern(size_t bytes, size_t seed);

// The seed of replies that are not echoes.
inline constexpr size_t kReplySeed = 12345;

class EndToEndService final : public EndToEnd::Service {
 public:
  absl::Status Echo(ServerContext* context, const EchoRequest* request,
                    EchoReply* reply) override;
  absl::Status Fail(ServerContext* context, const FailRequest* request,
                    Nothing* reply) override;
  absl::Status Block(ServerContext* context, const Key* request,
                     Nothing* reply) override;
  absl::Status AwaitBlocked(ServerContext* context, const Key* request,
                            Nothing* reply) override;
  absl::Status Release(ServerContext* context, const Key* request,
                       Nothing* reply) override;
  absl::Status AwaitOutcome(ServerContext* context, const Key* request,
                            Outcome* reply) override;
  absl::Status Describe(ServerContext* context, const Nothing* request,
                        Description* reply) override;

  // For tests in the server's process.
  void AwaitBlocked(const std::string& key);
  void Release(const std::string& key);
  std::string AwaitOutcome(const std::string& key);
  // How often Block was called with this key.
  int blocks(const std::string& key);

 private:
  struct Blocker {
    int calls = 0;
    bool blocked = false;
    bool released = false;
    std::string outcome;  // Empty while Block runs.
  };

  // Waits until `condition` holds for the blocker, or the call is cancelled.
  void WaitUntil(ServerContext* context, const std::string& key,
                 const std::function<bool(const Blocker&)>& condition);

  base::Mutex mutex_;
  base::CondVar changed_;
  std::map<std::string, Blocker> blockers_ ABSL_GUARDED_BY(mutex_);
};

class InlineService final : public Inline::Service {
 public:
  InlineService();

  absl::Status Echo(ServerContext* context, const EchoRequest* request,
                    EchoReply* reply) override;
  absl::Status Describe(ServerContext* context, const Nothing* request,
                        Description* reply) override;
};

}  // namespace verbena::end_to_end

#endif  // VERBENA_TESTS_INTEGRATION_TEST_SERVICE_H_
