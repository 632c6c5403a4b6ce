// Posts a function to a poller, for the control path.

#ifndef VERBENA_TRANSPORT_POLLING_POSTED_FUNCTION_H_
#define VERBENA_TRANSPORT_POLLING_POSTED_FUNCTION_H_

#include <utility>

#include "transport/polling/poller.h"
#include "transport/polling/task.h"

namespace verbena::transport {

// Runs `function` once on the poller's thread. Allocates; what is
// posted for every call derives from Task instead.
template <typename Function>
void PostFunction(Poller& poller, Function function) {
  class FunctionTask final : public Task {
   public:
    explicit FunctionTask(Function function) : function_(std::move(function)) {}
    void Run() override {
      function_();
      delete this;
    }

   private:
    Function function_;
  };
  poller.Post(new FunctionTask(std::move(function)));
}

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_POLLING_POSTED_FUNCTION_H_
