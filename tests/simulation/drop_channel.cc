#include "tests/simulation/drop_channel.h"

#include <utility>

#include "absl/status/status.h"
#include "tests/integration/test_service.h"

namespace verbena::simulation {

void DropInCallback(std::shared_ptr<Channel> channel,
                    std::function<void()> dropped) {
  struct Drop {
    ClientContext context;
    end_to_end::Nothing request;
    end_to_end::Description reply;
    std::shared_ptr<Channel> channel;
    std::function<void()> dropped;
  };
  auto* const drop = new Drop;
  drop->channel = std::move(channel);
  drop->dropped = std::move(dropped);
  drop->context.TryCancel();
  end_to_end::Inline::NewStub(drop->channel)
      ->async()
      ->Describe(&drop->context, &drop->request, &drop->reply,
                 [drop](const absl::Status& /*status*/) {
                   drop->channel.reset();
                   drop->dropped();
                   delete drop;
                 });
}

}  // namespace verbena::simulation
