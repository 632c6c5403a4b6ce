// The services that the end-to-end tests call.

#ifndef VERBENA_TESTS_INTEGRATION_TEST_SERVICE_H_
#define VERBENA_TESTS_INTEGRATION_TEST_SERVICE_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "rpc/server_context.h"
#include "rpc/server_stream.h"
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
  // Number of calls of Block with this key.
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

class TestStreams final : public StreamService::Service {
 public:
  using Lister =
      std::function<absl::Status(ServerContext*, ServerWriter<Item>*)>;
  using Recorder =
      std::function<absl::Status(ServerContext*, ServerReader<Item>*)>;
  using Chatter = std::function<absl::Status(ServerContext*,
                                             ServerReaderWriter<Item, Item>*)>;

  // Replaces a handler. REQUIRES: no call is open.
  void set_list(Lister list) { list_ = std::move(list); }
  void set_record(Recorder record) { record_ = std::move(record); }
  void set_chat(Chatter chat) { chat_ = std::move(chat); }

  absl::Status List(ServerContext* context, const ListRequest* request,
                    ServerWriter<Item>* writer) override;
  absl::Status Record(ServerContext* context, ServerReader<Item>* reader,
                      Summary* response) override;
  absl::Status Chat(ServerContext* context,
                    ServerReaderWriter<Item, Item>* stream) override;

 private:
  Lister list_;
  Recorder record_;
  Chatter chat_;
};

}  // namespace verbena::end_to_end

#endif  // VERBENA_TESTS_INTEGRATION_TEST_SERVICE_H_
