// Posts a function to a poller, for the control path.

#ifndef VERBENA_TRANSPORT_CONNECTION_POSTED_FUNCTION_H_
#define VERBENA_TRANSPORT_CONNECTION_POSTED_FUNCTION_H_

#include <utility>

#include "transport/connection/poller.h"
#include "transport/connection/poller_task.h"

namespace verbena::transport {

// Runs `function` once on the poller's thread. Allocates; what is
// posted for every call derives from PollerTask instead.
template <typename Function>
void PostFunction(Poller& poller, Function function) {
  class Task final : public PollerTask {
   public:
    explicit Task(Function function) : function_(std::move(function)) {}
    void Run() override {
      function_();
      delete this;
    }

   private:
    Function function_;
  };
  poller.Post(new Task(std::move(function)));
}

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_POSTED_FUNCTION_H_
